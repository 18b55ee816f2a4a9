from __future__ import annotations

import asyncio
import socket
import time
from functools import partial

import pytest

from rmqctl.net.clock import Deadline, SystemClock, VirtualClock, wait_for


async def test_a_virtual_clock_stands_still_until_it_is_advanced() -> None:
    clock = VirtualClock(now_ms=1_000)
    assert (clock.now_ms(), clock.monotonic_s()) == (1_000, 0.0)
    await clock.advance(2.5)
    assert (clock.now_ms(), clock.monotonic_s()) == (3_500, 2.5)


async def test_timers_run_in_order_of_their_due_time_and_ties_in_order_of_their_making() -> None:
    clock = VirtualClock()
    ran: list[str] = []
    for delay_s, name in ((3.0, "late"), (1.0, "early"), (2.0, "tie 1"), (2.0, "tie 2"), (-1.0, "overdue")):
        clock.call_later(delay_s, partial(ran.append, name))
    await clock.advance(10)
    assert ran == ["overdue", "early", "tie 1", "tie 2", "late"]


async def test_each_timer_sees_its_own_due_time() -> None:
    clock = VirtualClock(now_ms=0)
    seen: list[int] = []
    for delay_s in (0.5, 1.5):
        clock.call_later(delay_s, lambda: seen.append(clock.now_ms()))
    await clock.advance(10)
    assert seen == [500, 1_500]
    assert clock.now_ms() == 10_000


async def test_a_timer_beyond_the_advance_waits_for_the_next_one() -> None:
    clock = VirtualClock()
    ran: list[float] = []
    clock.call_later(2.0, lambda: ran.append(clock.monotonic_s()))
    await clock.advance(1.9)
    assert ran == []
    await clock.advance(0.1)
    assert ran == [2.0]


async def test_a_cancelled_timer_does_not_run_and_may_be_cancelled_again() -> None:
    clock = VirtualClock()
    ran: list[str] = []
    timer = clock.call_later(1.0, lambda: ran.append("cancelled"))
    done = clock.call_later(0.5, lambda: ran.append("ran"))
    timer.cancel()
    await clock.advance(2)
    timer.cancel()
    done.cancel()
    assert ran == ["ran"]


async def test_a_timer_made_by_a_timer_runs_in_the_same_advance_when_it_is_due() -> None:
    clock = VirtualClock()
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(clock.monotonic_s())
        clock.call_later(1.0, tick)

    clock.call_later(1.0, tick)
    await clock.advance(3.5)
    assert ticks == [1.0, 2.0, 3.0]


async def test_tasks_run_between_two_timers() -> None:
    clock = VirtualClock()
    woken = asyncio.Event()
    seen: list[float] = []

    async def waiter() -> None:
        await woken.wait()
        seen.append(clock.monotonic_s())

    task = asyncio.ensure_future(waiter())
    clock.call_later(1.0, woken.set)
    clock.call_later(2.0, lambda: None)
    await clock.advance(3)
    await task
    assert seen == [1.0]


async def test_wait_for_returns_the_result_and_calls_its_timer_off() -> None:
    clock = VirtualClock()

    async def work() -> str:
        return "done"

    assert await wait_for(clock, work(), 5) == "done"
    await clock.advance(10)


async def test_wait_for_raises_timeout_after_the_awaitable_has_cleaned_up() -> None:
    clock = VirtualClock()
    events: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            events.append("cleaned up")

    task = asyncio.ensure_future(wait_for(clock, work(), 5))
    await clock.advance(4.9)
    assert not task.done()
    await clock.advance(0.1)
    with pytest.raises(TimeoutError):
        await task
    assert events == ["cleaned up"]


async def test_wait_for_passes_the_awaitables_own_error_on() -> None:
    async def work() -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        await wait_for(VirtualClock(), work(), 5)


async def test_an_awaitable_that_cancels_itself_has_not_timed_out() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await wait_for(VirtualClock(), work(), 5)


async def test_cancelling_wait_for_cancels_the_awaitable_and_is_no_timeout() -> None:
    clock = VirtualClock()
    events: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    task = asyncio.ensure_future(wait_for(clock, work(), 5))
    await clock.await_idle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["cancelled"]
    await clock.advance(10)


async def test_a_cancel_from_outside_wins_over_a_timeout_at_the_same_moment() -> None:
    clock = VirtualClock()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            task.cancel()  # arrives while the time-out is being carried out

    task = asyncio.ensure_future(wait_for(clock, work(), 5))
    await clock.advance(5)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_counts_down_to_zero_and_not_below() -> None:
    clock = VirtualClock()
    deadline = Deadline(clock, 9)
    assert deadline.remaining_s() == 9
    await clock.advance(8)
    assert deadline.remaining_s() == 1
    await clock.advance(5)
    assert deadline.remaining_s() == 0
    assert deadline.attempt_s() == 0


async def test_an_attempt_gets_a_third_of_the_deadline_or_what_is_left() -> None:
    clock = VirtualClock()
    deadline = Deadline(clock, 9)
    assert deadline.attempt_s() == 3
    await clock.advance(7)
    assert deadline.attempt_s() == 2


async def test_the_system_clock_tells_the_machines_time_and_runs_timers_in_the_loop() -> None:
    clock = SystemClock()
    before_ms = time.time_ns() // 1_000_000
    assert before_ms <= clock.now_ms() <= time.time_ns() // 1_000_000
    assert clock.monotonic_s() <= clock.monotonic_s()
    ran = asyncio.Event()
    clock.call_later(0, ran.set)
    cancelled = clock.call_later(0, lambda: pytest.fail("was cancelled"))
    cancelled.cancel()
    await asyncio.wait_for(ran.wait(), 60)


def test_answers_that_came_while_the_process_was_stopped_are_read_before_their_timers_run() -> None:
    """The loop's clock jumps as it does over SIGSTOP; what was sent meanwhile waits in the socket."""
    loop = asyncio.new_event_loop()
    stopped_s = 0.0
    begun_s = loop.time()
    # Else it stands still: how long the machine takes is nothing.
    loop.time = lambda: begun_s + stopped_s  # type: ignore[method-assign]

    async def scenario() -> list[str]:
        nonlocal stopped_s
        ran: list[str] = []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            reader, writer = await asyncio.open_connection(sock=ours)

            async def read() -> None:
                ran.append((await reader.read(9)).decode())

            reading = asyncio.ensure_future(read())
            await asyncio.sleep(0)
            SystemClock().call_later(30, partial(ran.append, "time-out"))
            SystemClock().call_later(30, lambda: pytest.fail("was cancelled while it waited")).cancel()
            theirs.send(b"answer")
            stopped_s += 60
            await reading
            assert ran == ["answer"]
            late = SystemClock().call_later(-9, partial(ran.append, "overdue when it was made"))
            while len(ran) < 3:
                await asyncio.sleep(0)
                stopped_s += 0.01
            late.cancel()
            writer.close()
            await writer.wait_closed()
        return ran

    try:
        assert loop.run_until_complete(scenario()) == ["answer", "overdue when it was made", "time-out"]
    finally:
        loop.close()


async def test_a_wait_on_purpose_is_not_counted() -> None:
    clock = VirtualClock()
    deadline = Deadline(clock, 9)
    deadline.extend(30)
    await clock.advance(30)
    assert (deadline.remaining_s(), deadline.attempt_s()) == (9, 3)
