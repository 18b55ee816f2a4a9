"""Samples of many groups: what they show, how many requests they cost, and what they show of a broker that is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rmqctl.admin.offsets.fleet import fetch_fleet_progress
from rmqctl.errors import NoBrokerError, UnreachableError
from rmqctl.model.group import GroupState
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import pause
from rmqctl.observe.fleet_activity import GroupKey, InFlight
from rmqctl.observe.fleet_round import FleetRound
from rmqctl.observe.fleet_sampler import FleetSampler
from rmqctl.observe.sampled_progress import sample_progress
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.rules.time_lag import Anchor
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running, subscribed
from tests.admin.offsets.test_fleet import _cluster as cluster_of_every_kind
from tests.scripted_peer import DROP, V4_9_7, V5_4_0, passing, run

A0, A1, B0 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1), MessageQueue("T", "broker-b", 0)
PAY = GroupKey("C", "pay")


def _sample(
    cluster: Cluster, groups: Sequence[str] = (), *, count: int = 1, every_s: float = 15.0, rate_per_s: float = 2.0,
    before: Callable[[int], None] = lambda _: None,
) -> list[FleetRound]:  # fmt: skip
    """Return rounds; `before` is called with the number of each."""

    async def main() -> list[FleetRound]:
        async with cluster.client(open_ended=True) as client:
            sampler = FleetSampler(client, groups, every_s=every_s, rate_per_s=rate_per_s)

            async def read() -> list[FleetRound]:
                rounds = []
                for number in range(count):
                    before(number)
                    rounds.append(await sampler.sample())
                    keys = rounds[-1].samples.keys()
                    await sampler.look_closer(every_s, urgent=keys, undated=keys)
                    await pause(client.clock, every_s)
                return rounds

            return await passing(cluster.clock, read(), limit_s=3600)

    return run(main())


def _rows(found: FleetRound) -> dict[tuple[str, MessageQueue], QueueProgress]:
    return {(key.group, row.mq): row for key, sample in found.samples.items() for row in sample_progress(sample)}


def _pay(**kinds: Any) -> tuple[BrokerState, BrokerState]:
    """Return two brokers with one group, which has read T up to 40 on broker-a and up to 20 on broker-b."""
    a = BrokerState(
        "broker-a", topics={"T": [Queue(100, 7)]}, offsets={"pay": {"T": {0: 40}}}, configured={"pay"},
        pulls={("pay", "T", 0): 48}, **kinds,
    )  # fmt: skip
    b = BrokerState("broker-b", topics={"T": [Queue(50)]}, offsets={"pay": {"T": {0: 20}}}, configured={"pay"}, **kinds)
    a.groups = b.groups = {"pay": Group({"one": running({A0: held(8, 40, 47, 40), B0: held(commit=20)})})}
    return a, b


# The offset that one request returns, and a client that reports more than brokers do, are not asked for here.
_SAME = ("min_offset", "max_offset", "consumer_offset", "lag", "lost", "client_ids")


def test_members_are_read_even_if_every_round_is_late() -> None:
    cluster = Cluster(*_pay())

    async def main() -> list[FleetRound]:
        async with cluster.client(open_ended=True) as client:
            sampler = FleetSampler(client, ["pay"], every_s=1.0, rate_per_s=0.5)

            async def read() -> list[FleetRound]:
                rounds = []
                for _ in range(3):
                    rounds.append(await sampler.sample())
                    await sampler.look_closer(-1.0)
                return rounds

            return await passing(cluster.clock, read(), limit_s=3600)

    for found in run(main()):
        sample = found.samples[PAY].sample
        assert sample.client_ids == ("one",)
        assert sample.members_at_ms is not None
        assert sample.members_at_ms < sample.at_ms


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7])
def test_rows_are_those_of_a_fleet(version: int) -> None:
    cluster = cluster_of_every_kind(version)
    for broker in cluster.brokers.values():
        broker.tells_last_times = False
    names = ("busy", "idle", "left", "lost", "never", "popping", "silent", "zero")
    rows = _rows(_sample(cluster, names, count=4, every_s=60.0)[-1])

    async def main() -> Any:
        async with cluster.client(open_ended=True) as client:
            return await passing(cluster.clock, fetch_fleet_progress(client))

    expected = {(group.group, row.mq): row for group in run(main()).groups for row in group.rows}
    assert rows.keys() == expected.keys()
    for key, row in rows.items():
        # Members that pop do not report queues that they hold.
        for name in _SAME[: -1 if key[0] == "popping" else None]:
            assert getattr(row, name) == getattr(expected[key], name), (key, name)


@pytest.mark.parametrize("rate_per_s", [2.0, 0.3])
def test_a_round_costs_two_kinds_of_requests(rate_per_s: float) -> None:
    """With more topics than the rate allows, one request returns all ends, and the rows are the same."""
    names = [f"T{number}" for number in range(6)]
    broker = BrokerState(
        "broker-a", topics={name: [Queue(100, 7), Queue(9)] for name in names},
        offsets={f"g{name}": {name: {0: 40, 1: 0}} for name in names}, configured={f"g{name}" for name in names},
    )  # fmt: skip
    cluster = Cluster(broker)
    # Min offsets that are needed are read over several rounds.
    found = _sample(cluster, rate_per_s=rate_per_s, count=4)[-1]
    assert {(group, mq.queue_id): row.lag for (group, mq), row in _rows(found).items()} == {
        (f"g{name}", queue_id): lag for name in names for queue_id, lag in ((0, 60), (1, 9))
    }
    codes = [command.code for command in cluster.servers["broker-a"].asked]
    assert (Q.GET_BROKER_CONSUME_STATS in codes) is (rate_per_s < 1)
    assert (Q.GET_TOPIC_STATS_INFO in codes[:2]) is (rate_per_s > 1)
    assert Q.GET_CONSUME_STATS not in codes[:2]


def test_requests_are_spaced() -> None:
    cluster = Cluster(*_pay())
    times: dict[str, list[float]] = {"broker-a": [], "broker-b": []}
    for name, server in cluster.servers.items():
        for code, reply in list(server.table.items()):

            def noted(request: Any, name: str = name, reply: Any = reply) -> Any:
                times[name].append(cluster.clock.monotonic_s())
                return reply(request)

            server.table[code] = noted
    _sample(cluster, count=4)
    for name, at_s in times.items():
        assert len(at_s) > 20, name
        for first, third in zip(at_s, at_s[2:], strict=False):
            assert third - first >= 1 - 1e-6, name


def test_details_are_read_between_rounds() -> None:
    first, second = _sample(Cluster(*_pay()), count=2)
    for found in (first, second):
        sample = found.samples[PAY].sample
        assert (sample.state, sample.client_ids) == (GroupState.ONLINE, ("one",))
        assert [owner.client_id for owner in sample.queues[A0].owners] == ["one"]
    activity = second.activities[PAY]
    assert activity.in_flight == {"T": InFlight(8, 82)}
    assert activity.dead_letters == 0
    assert activity.anchors[A0] == Anchor(40, activity.anchors[A0].stored_ms)


def test_messages_in_flight_of_members_that_pop_are_unknown() -> None:
    a, b = _pay()
    # Its broker reports a push consumer, as for each Java client.
    a.groups["pay"] = Group({"one": running({}, {("T", "broker-a", -1): 3}, PROP_CONSUME_TYPE="CONSUME_PASSIVELY")})
    assert _sample(Cluster(a, b), count=2)[1].activities[PAY].in_flight is None


def test_brokers_before_5_do_not_report_messages_in_flight() -> None:
    assert _sample(Cluster(*_pay(version=V4_9_7)))[0].activities[PAY].in_flight is None


def test_a_member_that_was_not_asked_is_unknown() -> None:
    """With many groups, only those that were asked since the last round have members."""
    names = [f"g{number:02}" for number in range(40)]
    broker = BrokerState(
        "broker-a", topics={"T": [Queue(10)]}, offsets={name: {"T": {0: 5}} for name in names}, configured=set(names)
    )
    found = _sample(Cluster(broker))[0]
    states = [sample.sample.state for sample in found.samples.values()]
    assert 0 < states.count(GroupState.EMPTY) < 10
    assert states.count(GroupState.UNKNOWN) == 40 - states.count(GroupState.EMPTY)
    reasons = {sample.sample.queues[A0].reasons["clientId"] for sample in found.samples.values()}
    assert reasons == {Unknown.NO_MEMBERS, Unknown.NOT_REPORTED}


def test_queues_of_a_broker_that_is_gone_stay_and_are_unknown() -> None:
    cluster = Cluster(*_pay())

    def before(number: int) -> None:
        if number == 1:
            cluster.servers["broker-b"].table.clear()
            cluster.servers["broker-b"].table.update(dict.fromkeys(Q, DROP))
        if number == 2:
            del cluster.brokers["broker-b"]

    _, refused, unregistered = _sample(cluster, count=3, before=before)
    for found, reason in ((refused, Unknown.BROKER_UNREACHABLE), (unregistered, Unknown.BROKER_NOT_REGISTERED)):
        rows = _rows(found)
        assert (rows["pay", B0].lag, rows["pay", B0].reasons["lag"]) == (None, reason)
        assert rows["pay", A0].lag == 60
        assert ("broker-b", "offsets") in [(failure.broker_name, failure.what) for failure in found.failures]
        assert found.unseen == {}
    # A member may be connected to that broker only.
    assert unregistered.samples[PAY].sample.client_ids == ("one",)
    assert unregistered.samples[PAY].sample.clients.keys() == {"one"}


def test_a_broker_that_never_answered_may_have_more_queues() -> None:
    cluster = Cluster(*_pay())
    cluster.stop("broker-b")
    (found,) = _sample(cluster)
    assert found.unseen == {"C": ("broker-b",)}
    assert set(found.samples[PAY].sample.queues) == {A0}
    cluster.stop("broker-a")
    with pytest.raises(UnreachableError):
        _sample(cluster)


def test_a_cluster_without_brokers_is_an_error() -> None:
    with pytest.raises(NoBrokerError):
        _sample(Cluster())


def test_a_later_round_without_any_server_keeps_all_groups() -> None:
    cluster = Cluster(*_pay())

    def before(number: int) -> None:
        if number == 1:
            for address, server in cluster.network.servers.items():
                cluster.network.refusing.add(address)
                server.table.clear()
                server.table.update(dict.fromkeys(Q, DROP))

    _, gone = _sample(cluster, count=2, before=before)
    assert {mq: row.lag for (_, mq), row in _rows(gone).items()} == {A0: None, B0: None}
    assert {(failure.broker_name, failure.what) for failure in gone.failures} >= {
        (None, "list of brokers"), ("broker-a", "offsets"), ("broker-b", "offsets"),
    }  # fmt: skip


def test_topics_that_an_online_group_has_left_do_not_count() -> None:
    a, b = _pay()
    a.topics["OLD"], a.offsets["pay"]["OLD"] = [Queue(9)], {0: 1}
    a.topics["NEW"] = [Queue(4)]
    group = a.groups["pay"]
    group.topics = ("T", "NEW")
    subscriptions = [subscribed("T"), subscribed("NEW")]
    group.members["one"] = running({A0: held(commit=40)}, subscriptions=subscriptions)
    first, second = _sample(Cluster(a, b), count=2)
    new = MessageQueue("NEW", "broker-a", 0)
    for found in (first, second):
        assert set(found.samples[PAY].sample.queues) == {A0, B0, new}
    assert _rows(second)["pay", new].reasons["consumerOffset"] is Unknown.NEVER_COMMITTED


def test_queues_that_consumers_cannot_read_do_not_count() -> None:
    a, b = _pay()
    a.topics["T"].append(Queue(5))
    assert set(_sample(Cluster(a, b))[0].samples[PAY].sample.queues) == {A0, A1, B0}
    a.topic_configs["T"] = {"readQueueNums": 1}
    assert set(_sample(Cluster(a, b))[0].samples[PAY].sample.queues) == {A0, B0}


def test_offsets_of_a_broadcasting_group_are_not_known() -> None:
    a, b = _pay()
    a.groups["pay"].message_model = "BROADCASTING"
    row = _rows(_sample(Cluster(a, b))[0])["pay", A0]
    assert (row.lag, row.reasons["lag"]) == (None, Unknown.BROADCASTING)


def test_groups_are_named_or_matched() -> None:
    broker = BrokerState(
        "broker-a", topics={"T": [Queue(10)]},
        offsets={name: {"T": {0: 5}} for name in ("pay", "pay-2", "ship", "TOOLS_CONSUMER")},
    )  # fmt: skip
    for patterns, expected in (
        ((), ["pay", "pay-2", "ship"]),
        (("pay*",), ["pay", "pay-2"]),
        (("ship", "TOOLS_CONSUMER", "other"), ["TOOLS_CONSUMER", "ship"]),
    ):
        assert [key.group for key in _sample(Cluster(broker), patterns)[0].samples] == expected


def test_a_topic_that_a_broker_does_not_report_is_unknown() -> None:
    cluster = Cluster(*_pay())

    def before(number: int) -> None:
        if number:
            cluster.servers["broker-a"].table[Q.GET_TOPIC_STATS_INFO] = DROP

    _, found = _sample(cluster, count=2, before=before)
    row = _rows(found)["pay", A0]
    assert (row.consumer_offset, row.max_offset, row.reasons["lag"]) == (40, None, Unknown.BROKER_UNREACHABLE)
    assert [(each.broker_name, each.what) for each in found.failures if each.broker_name == "broker-a"] == [
        ("broker-a", "ends of queues")
    ]


@pytest.mark.parametrize("rate_per_s", [2.0, 0.05])
def test_messages_of_queues_that_were_cut_off_are_counted_beside_the_lag(rate_per_s: float) -> None:
    a, b = _pay()
    a.offsets["pay"]["T"] |= {3: 4, 4: 9}
    a.cut_queues = {("T", 3): Queue(9, 6), ("T", 4): Queue(9)}
    found = _sample(Cluster(a, b), count=3, rate_per_s=rate_per_s)[-1]
    assert found.unreadable == {PAY: {MessageQueue("T", "broker-a", 3): 3}}
    assert {mq.queue_id for mq in found.samples[PAY].sample.queues} == {0}
    # Consumers can read them again.
    a.topics["T"] += [Queue(), Queue(), Queue(9, 6), Queue(9)]
    assert _sample(Cluster(a, b), rate_per_s=rate_per_s)[-1].unreadable == {PAY: {}}


def test_the_ends_of_queues_that_were_cut_off_are_kept_and_missing_ones_named() -> None:
    a, b = _pay()
    a.offsets["pay"]["T"][3] = 4
    a.cut_queues = {("T", 3): Queue(9)}
    cluster = Cluster(a, b)
    _sample(cluster, count=3)
    codes = [command.code for command in cluster.servers["broker-a"].asked]
    assert codes.count(Q.GET_MAX_OFFSET) == 1
    cluster = Cluster(a, b)
    cluster.servers["broker-a"].table[Q.GET_MAX_OFFSET] = DROP
    found = _sample(cluster)[-1]
    assert [(each.broker_name, each.what) for each in found.failures] == [("broker-a", "ends of queues")]
