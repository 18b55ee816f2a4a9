"""Watching members until their clocks are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmqctl.admin.groups.members import fetch_group_members
from rmqctl.client.core import Client
from rmqctl.observe.clock_watch import NARROW_MS, PROBE_S, WatchedMember, watch_members
from rmqctl.protocol.command import Command
from rmqctl.rules.member_clock import member_clock
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running
from tests.scripted_peer import SILENCE, Reply, passing, run

_SKEW_MS = 3_600_000
_MQ = ("T", "broker-a", 0)


def _pulling_each(period_ms: int, cluster: Cluster) -> Callable[[Command], Reply]:
    """Answer as a member does that pulls each so many ms, by a clock that is an hour ahead."""

    def answer(_: Command) -> Reply:
        now_ms = cluster.clock.now_ms()
        return running({_MQ: held(commit=1, lastPullTimestamp=now_ms - now_ms % period_ms + _SKEW_MS)})

    return answer


def _watch(reply: Callable[[Cluster], Reply], *, is_probe: bool) -> tuple[int | None, int | None, int, float]:
    """Return the bounds, how many answers led to them, and how long it took in virtual s."""
    broker = BrokerState("broker-a", topics={"T": [Queue(1)]}, groups={"G": Group({})})
    cluster = Cluster(broker)
    broker.groups["G"].members["c1"] = _pulling_each(20_000, cluster)

    async def question(client: Client) -> tuple[int | None, int | None, int, float]:
        told = (await fetch_group_members(client, "G")).running.ok["c1"]
        broker.groups["G"].members["c1"] = reply(cluster)
        began_s = client.clock.monotonic_s()
        (looks,) = await watch_members(client, [WatchedMember("G", "c1", ("a:1",), (told,))], is_probe=is_probe)
        bounds = member_clock(looks)
        return bounds.low_ms, bounds.high_ms, len(looks), client.clock.monotonic_s() - began_s

    async def ask() -> tuple[int | None, int | None, int, float]:
        async with cluster.client(open_ended=True) as client:
            return await passing(cluster.clock, question(client))

    return run(ask())


@pytest.mark.parametrize("period_ms", [20_000, 15_000, 4])
def test_a_probe_finds_the_clock_of_a_member_that_pulls_now_and_then(period_ms: int) -> None:
    low_ms, high_ms, count, took_s = _watch(lambda cluster: _pulling_each(period_ms, cluster), is_probe=True)
    assert low_ms is not None
    assert high_ms is not None
    assert low_ms <= _SKEW_MS <= high_ms
    assert high_ms - low_ms <= NARROW_MS
    assert took_s < 70
    assert count < 40  # answers that say the same are not kept


def test_many_members_that_pull_at_the_same_time_are_all_known() -> None:
    broker = BrokerState("broker-a", topics={"T": [Queue(1)]}, groups={"G": Group({})})
    cluster = Cluster(broker)
    names = [f"c{number}" for number in range(4)]  # twice as many as are asked often at a time
    broker.groups["G"].members |= {name: _pulling_each(20_000, cluster) for name in names}

    async def ask() -> list[int | None]:
        async with cluster.client(open_ended=True) as client:
            told = (await fetch_group_members(client, "G")).running.ok
            members = [WatchedMember("G", name, ("a:1",), (told[name],)) for name in names]
            probe = watch_members(client, members, is_probe=True)
            looks = await passing(cluster.clock, probe, limit_s=PROBE_S + 10)
            return [member_clock(each).width_ms for each in looks]

    assert all(width_ms is not None and width_ms <= NARROW_MS for width_ms in run(ask()))


def test_without_a_probe_members_are_asked_once_or_twice() -> None:
    low_ms, high_ms, count, _ = _watch(lambda cluster: _pulling_each(20_000, cluster), is_probe=False)
    assert (high_ms, count) == (None, 2)
    assert low_ms is not None


def test_a_member_that_falls_silent_is_left_alone() -> None:
    assert _watch(lambda _: SILENCE, is_probe=True)[2] == 1
