"""Requests that wait for messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rmqctl.net.clock import VirtualClock
from rmqctl.sandbox.delivery.held_requests import HeldRequests
from tests.scripted_peer import run


def _scenario(work: Callable[[HeldRequests, VirtualClock, list[Any]], Any]) -> None:
    async def scenario() -> None:
        clock = VirtualClock()
        await work(HeldRequests(clock), clock, [])

    run(scenario())


def test_a_batch_wakes_once() -> None:
    async def work(holds: HeldRequests, _: VirtualClock, woken: list[bool]) -> None:
        holds.hold([("T", 0)], 15, woken.append)
        for _ in range(3):
            holds.arrived("T", 0, 0)
        assert woken == []
        await asyncio.sleep(0)
        assert woken == [True]
        assert len(holds) == holds.count("T", 0) == 0

    _scenario(work)


def test_what_came_before_the_wait_is_no_news() -> None:
    async def work(holds: HeldRequests, clock: VirtualClock, woken: list[str]) -> None:
        never = set[int]().__contains__
        holds.hold([("T", 0)], 15, lambda _: woken.append("before"))
        holds.arrived("T", 0, 0)
        holds.hold([("T", 0)], 15, lambda _: woken.append("after"))
        holds.hold([("T", 0)], 15, lambda _: woken.append("picky"), accepts_code=never, recheck_s=5)
        await clock.advance(14)
        assert woken == ["before"]
        holds.arrived("T", 0, 0)
        await asyncio.sleep(0)
        assert woken == ["before", "after"]

    _scenario(work)


def test_only_the_queue_and_the_tag_that_are_waited_for_wake() -> None:
    async def work(holds: HeldRequests, clock: VirtualClock, woken: list[bool]) -> None:
        holds.hold([("T", 0), ("T", 1)], 15, woken.append, accepts_code={7}.__contains__)
        holds.arrived("T", 2, 7)
        holds.arrived("Else", 0, 7)
        holds.arrived("T", 1, 8)
        await clock.advance(14)
        assert woken == []
        assert (holds.count("T", 0), holds.count("T", 1), len(holds)) == (1, 1, 1)
        holds.arrived("T", 1, 8)
        holds.arrived("T", 1, 7)
        await asyncio.sleep(0)
        assert woken == [True]
        assert len(holds) == 0

    _scenario(work)


def test_properties_are_looked_at_where_they_are_known() -> None:
    async def work(holds: HeldRequests, _: VirtualClock, woken: list[bool]) -> None:
        holds.hold([("T", 0)], 15, woken.append, accepts_properties=lambda properties: "a" in properties)
        holds.arrived("T", 0, 0, {"b": "1"})
        await asyncio.sleep(0)
        assert woken == []
        holds.arrived("T", 0, 0, {"a": "1"})
        await asyncio.sleep(0)
        assert woken == [True]
        holds.hold([("T", 0)], 15, woken.append, accepts_properties=lambda properties: "a" in properties)
        holds.arrived("T", 0, 0)
        await asyncio.sleep(0)
        assert woken == [True, True]

    _scenario(work)


def test_the_wait_ends_in_time_and_is_no_news() -> None:
    async def work(holds: HeldRequests, clock: VirtualClock, woken: list[bool]) -> None:
        holds.hold([("T", 0)], 15, woken.append)
        await clock.advance(14.9)
        assert woken == []
        await clock.advance(0.1)
        assert woken == [False]
        holds.arrived("T", 0, 0)
        await clock.advance(60)
        assert woken == [False]

    _scenario(work)


def test_what_is_not_wanted_ends_the_wait_a_little_later() -> None:
    async def work(holds: HeldRequests, clock: VirtualClock, woken: list[bool]) -> None:
        never = set[int]().__contains__
        holds.hold([("T", 0)], 15, woken.append, accepts_code=never, recheck_s=5)
        await clock.advance(3)
        holds.arrived("T", 0, 1)
        await clock.advance(4)
        holds.arrived("T", 0, 1)
        await clock.advance(0.9)
        assert woken == []
        await clock.advance(0.1)
        assert woken == [True]
        await clock.advance(60)
        assert woken == [True]

    _scenario(work)


def test_all_that_wait_for_a_topic_can_be_woken() -> None:
    async def work(holds: HeldRequests, clock: VirtualClock, woken: list[str]) -> None:
        holds.hold([("T", 0), ("T", 1)], 15, lambda _: woken.append("both"))
        holds.hold([("T", 1), ("Else", 0)], 15, lambda _: woken.append("mixed"))
        holds.hold([("Else", 0)], 15, lambda _: woken.append("else"))
        holds.end_all("T")
        assert woken == ["both", "mixed"]
        await clock.advance(15)
        assert woken == ["both", "mixed", "else"]

    _scenario(work)


def test_who_is_woken_can_wait_again() -> None:
    async def work(holds: HeldRequests, clock: VirtualClock, woken: list[float]) -> None:
        def again(_: bool) -> None:
            woken.append(clock.monotonic_s())
            if len(woken) < 3:
                holds.hold([("T", 0)], 5, again)

        holds.hold([("T", 0)], 5, again)
        await clock.advance(60)
        assert woken == [5, 10, 15]

    _scenario(work)


def test_the_waits_of_someone_who_has_gone_are_over() -> None:
    async def work(holds: HeldRequests, clock: VirtualClock, woken: list[str]) -> None:
        for owner in ("one", "other", "one"):
            holds.hold([("T", 0), ("T", 1)], 15, lambda _, owner=owner: woken.append(owner), owner=owner)  # type: ignore[misc]
        holds.end_owner("one")
        holds.end_owner("nobody")
        assert woken == ["one", "one"]
        assert len(holds) == holds.count("T", 0) == holds.count("T", 1) == 1
        await clock.advance(15)
        assert woken == ["one", "one", "other"]

    _scenario(work)


def test_a_wake_that_fails_does_not_cost_the_others_theirs() -> None:
    async def work(holds: HeldRequests, clock: VirtualClock, woken: list[bool]) -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

        def fail(_: bool) -> None:
            raise ValueError("broken")

        for wake_all in (lambda: holds.arrived("T", 0, 0), lambda: holds.end_all("T"), lambda: holds.end_owner("one")):
            holds.hold([("T", 0)], 15, fail, owner="one")
            holds.hold([("T", 0)], 15, woken.append, owner="one")
            wake_all()
            await clock.await_idle()
            assert len(holds) == 0
        assert woken == [True, True, False]
        assert [str(context["exception"]) for context in reported] == ["broken"] * 3

    _scenario(work)


def test_nobody_is_woken_after_the_close() -> None:
    async def work(holds: HeldRequests, clock: VirtualClock, woken: list[bool]) -> None:
        holds.hold([("T", 0)], 5, woken.append)
        holds.arrived("T", 0, 0)
        holds.close()
        await clock.advance(60)
        assert woken == []
        assert len(holds) == 0

    _scenario(work)
