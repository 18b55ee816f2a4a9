"""The machine's clock with jumps."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from types import SimpleNamespace

import pytest

from rmqctl.net.clock import JumpClock, pause


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the machine's time, so that only jumps pass it, however long it takes."""
    monkeypatch.setattr("rmqctl.net.clock.time", SimpleNamespace(monotonic=lambda: 1_000.0, time_ns=time.time_ns))


async def test_a_jump_moves_both_times_and_they_go_on_from_there() -> None:
    clock = JumpClock()
    assert clock.ahead_ms == 0
    wall_ms, monotonic_s, started_s = clock.now_ms(), clock.monotonic_s(), time.monotonic()
    await clock.advance(7_200)
    wall_passed_ms, passed_s = clock.now_ms() - wall_ms, clock.monotonic_s() - monotonic_s
    # The jump, and what the machine took for it.
    most_s = 7_200 + time.monotonic() - started_s + 0.1
    assert 7_200_000 <= wall_passed_ms <= most_s * 1000
    assert 7_200 <= passed_s <= most_s
    assert clock.ahead_ms == 7_200_000
    await clock.advance(10)
    before_ms = time.time_ns() // 1_000_000
    assert before_ms <= clock.now_ms() - 7_210_000 <= time.time_ns() // 1_000_000
    assert clock.ahead_ms == 7_210_000


@pytest.mark.usefixtures("stopped")
async def test_what_falls_due_runs_in_order_and_each_sees_its_own_time() -> None:
    clock = JumpClock()
    start_s = clock.monotonic_s()
    ran: list[tuple[str, float]] = []

    def note(name: str) -> None:
        ran.append((name, round(clock.monotonic_s() - start_s, 1)))

    for delay_s, name in (
        (300.0, "late"),
        (100.0, "early"),
        (200.04, "second"),
        (200.0, "first"),
        (-1.0, "overdue"),
    ):
        clock.call_later(delay_s, partial(note, name))
    await clock.advance(1_000)
    assert ran == [("overdue", 0.0), ("early", 100.0), ("first", 200.0), ("second", 200.0), ("late", 300.0)]


@pytest.mark.usefixtures("stopped")
async def test_timers_beyond_a_jump_and_made_within_it_come_in_their_time() -> None:
    clock = JumpClock()
    ran: list[str] = []
    done = asyncio.Event()
    clock.call_later(10, lambda: clock.call_later(10, lambda: ran.append("made within")))
    clock.call_later(100.05, done.set)
    called_off = clock.call_later(50, lambda: ran.append("called off"))
    clock.call_later(40, called_off.cancel)
    await clock.advance(15)
    assert ran == []
    await clock.advance(85)
    assert ran == ["made within"]
    assert not done.is_set()
    # What is left comes by itself, in the machine's time.
    await asyncio.wait_for(done.wait(), 60)


@pytest.mark.usefixtures("stopped")
async def test_tasks_go_on_within_a_jump() -> None:
    clock = JumpClock()
    times: list[int] = []

    async def work() -> None:
        start_s = clock.monotonic_s()
        while len(times) < 5:
            await pause(clock, 60)
            times.append(round(clock.monotonic_s() - start_s))

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await clock.advance(301)
    await task
    assert times == [60, 120, 180, 240, 300]


async def test_a_jump_over_days_is_quick_however_often_something_repeats() -> None:
    clock = JumpClock()
    count = 0

    def again() -> None:
        nonlocal count
        count += 1
        clock.call_later(0.001, again)

    again()
    passed = []
    await clock.advance(72 * 3600, passed.append)
    assert abs(sum(passed) - 72 * 3600) < 1
    assert 5_000 < count < 20_000


def test_a_timer_that_fails_stops_nothing_and_is_told() -> None:
    async def scenario() -> None:
        clock = JumpClock()
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        ran: list[int] = []
        clock.call_later(1, lambda: {}["not there"])
        clock.call_later(2, lambda: ran.append(2))
        await clock.advance(3)
        assert [type(error) for error in told] == [KeyError]
        assert ran == [2]

    asyncio.run(scenario())


async def test_two_jumps_at_once_are_refused_and_one_that_is_called_off_leaves_the_clock_going() -> None:
    clock = JumpClock()
    done = asyncio.Event()

    def again() -> None:
        clock.call_later(60, again)

    again()
    jump = asyncio.create_task(clock.advance(10 * 86_400))
    for _ in range(100):
        await asyncio.sleep(0)
    with pytest.raises(RuntimeError):
        await clock.advance(1)
    jump.cancel()
    await asyncio.gather(jump, return_exceptions=True)
    ahead_ms = clock.ahead_ms
    assert 0 < ahead_ms < 10 * 86_400_000
    clock.call_later(0.01, done.set)
    await asyncio.wait_for(done.wait(), 60)
    assert clock.ahead_ms == ahead_ms
