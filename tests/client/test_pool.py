from __future__ import annotations

import asyncio

import pytest

from rmqctl.client.pool import Pool
from rmqctl.errors import DeadlineError, UnreachableError
from rmqctl.net.clock import VirtualClock
from rmqctl.protocol.command import Command
from tests.scripted_peer import DROP, ScriptedNetwork, ok

ASK = 9_001


def _pool() -> tuple[VirtualClock, ScriptedNetwork, Pool]:
    clock = VirtualClock()
    network = ScriptedNetwork(clock)
    return clock, network, Pool(clock, connect=network.connect)


async def test_one_connection_an_address_is_shared_by_all() -> None:
    _, network, pool = _pool()
    network.add("a:1")
    network.add("b:1")
    assert await pool.link("a:1", 5) is await pool.link("a:1", 5)
    assert await pool.link("a:1", 5) is not await pool.link("b:1", 5)
    assert network.attempts == ["a:1", "b:1"]
    await pool.aclose()


async def test_callers_at_the_same_time_share_one_attempt() -> None:
    _, network, pool = _pool()
    network.add("a:1")
    links = await asyncio.gather(*(pool.link("a:1", 5) for _ in range(20)))
    assert len(set(map(id, links))) == 1
    assert network.attempts == ["a:1"]
    await pool.aclose()


async def test_callers_at_the_same_time_share_one_failure() -> None:
    _, network, pool = _pool()
    results = await asyncio.gather(*(pool.link("a:1", 5) for _ in range(20)), return_exceptions=True)
    assert {type(result) for result in results} == {UnreachableError}
    assert network.attempts == ["a:1"]
    await pool.aclose()


async def test_after_a_failure_further_requests_fail_at_once_for_a_second_then_it_is_tried_again() -> None:
    clock, network, pool = _pool()
    network.add("a:1")
    network.refusing.add("a:1")
    with pytest.raises(UnreachableError, match="connection refused"):
        await pool.link("a:1", 5)
    network.refusing.clear()
    await clock.advance(0.9)
    with pytest.raises(UnreachableError, match="connection refused"):
        await pool.link("a:1", 5)
    assert network.attempts == ["a:1"]
    await clock.advance(0.1)
    assert not (await pool.link("a:1", 5)).closed
    assert network.attempts == ["a:1", "a:1"]
    await pool.aclose()


async def test_a_failure_at_one_address_says_nothing_of_another() -> None:
    _, network, pool = _pool()
    network.add("b:1")
    with pytest.raises(UnreachableError):
        await pool.link("a:1", 5)
    await pool.link("b:1", 5)
    await pool.aclose()


async def test_an_attempt_that_nobody_answers_ends_at_its_time_limit() -> None:
    clock, network, pool = _pool()
    network.hanging.add("a:1")
    attempt = asyncio.ensure_future(pool.link("a:1", 3))
    await clock.advance(3)
    with pytest.raises(DeadlineError):
        await attempt
    await pool.aclose()


async def test_a_caller_that_gives_up_leaves_the_attempt_to_the_others() -> None:
    _, network, pool = _pool()
    network.add("a:1")
    gives_up, waits = (asyncio.ensure_future(pool.link("a:1", 5)) for _ in range(2))
    await asyncio.sleep(0)
    gives_up.cancel()
    assert not (await waits).closed
    assert network.attempts == ["a:1"]
    await pool.aclose()


async def test_a_connection_that_ended_is_opened_anew() -> None:
    _, network, pool = _pool()
    network.add("a:1", {ASK: ok()}).fail_next(ASK, DROP)
    first = await pool.link("a:1", 5)
    with pytest.raises(UnreachableError):
        await first.request(Command(ASK), 5)
    second = await pool.link("a:1", 5)
    assert second is not first
    await second.request(Command(ASK), 5)
    assert network.attempts == ["a:1", "a:1"]
    await pool.aclose()


async def test_closing_ends_every_connection_and_every_attempt() -> None:
    clock, network, pool = _pool()
    server = network.add("a:1")
    network.hanging.add("b:1")
    link = await pool.link("a:1", 5)
    attempt = asyncio.ensure_future(pool.link("b:1", 5))
    await clock.await_idle()
    await pool.aclose()
    assert link.closed
    await clock.await_idle()
    assert server.connections == []
    with pytest.raises(asyncio.CancelledError):
        await attempt


async def test_a_closed_pool_opens_nothing_any_more() -> None:
    _, network, pool = _pool()
    network.add("a:1")
    await pool.link("a:1", 5)
    await pool.aclose()
    with pytest.raises(UnreachableError, match="closed here"):
        await pool.link("a:1", 5)
    assert network.attempts == ["a:1"]
