"""All groups at once: what is told is what `offset show` tells of each, with fewer requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from rmqctl.admin.offsets.fleet import FleetProgress, fetch_fleet_progress, require_groups
from rmqctl.admin.offsets.group import fetch_matching_progress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.errors import NotFoundError, UnreachableError
from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, held, running, subscribed
from tests.scripted_peer import DROP, SILENCE, V4_9_7, V5_4_0, Late, passing, refused, run

A0, A1, B0 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1), MessageQueue("T", "broker-b", 0)


def _cluster(version: int = V5_4_0) -> Cluster:
    """Two brokers and groups of every kind: see `offsets` and `groups`."""
    a = BrokerState(
        "broker-a",
        version=version,
        topics={"T": [Queue(100, 7), Queue(90)], "U": [Queue(5)], "%RETRY%busy": [Queue(3, 1)], "E": [Queue(4, 4)]},
        offsets={
            "busy": {"T": {0: 20, 1: 90}, "U": {0: 5}, "%RETRY%busy": {0: 1}},
            "zero": {"T": {0: 0, 1: -1}},
            "lost": {"T": {0: 3, 1: 95}},
            "left": {"T": {0: 50}, "GONE": {0: 4}},
            "TOOLS_CONSUMER": {"T": {0: 1}},
        },
        configured={"busy", "zero", "idle", "never", "lost", "popping", "silent"},
    )
    b = BrokerState(
        "broker-b",
        version=version,
        topics={"T": [Queue(50)], "E": [Queue(0)]},
        offsets={"busy": {"T": {0: 7}}},
        configured={"busy", "zero", "idle", "never", "lost", "popping", "silent"},
    )
    holding = running({A0: held(3, 20, 22, 20), A1: held(commit=90), B0: held(commit=7)})
    # The brokers name only T; that it consumes U as well, it says itself.
    told = running({A0: held(commit=20)}, subscriptions=[subscribed("T"), subscribed("U")])
    groups = {
        "busy": Group({"one": holding, "two": told}, topics=("T", "%RETRY%busy")),
        "never": Group({"new": running({})}, topics=("T", "E")),
        "popping": Group({"pop": running(pops={A0: 4})}, consume_type="CONSUME_POP"),
        "silent": Group({"mute": refused(R.CONSUME_MSG_TIMEOUT, "timeout")}),
    }
    for broker in (a, b):
        broker.groups = groups
    return Cluster(a, b)


def _fleet(cluster: Cluster, groups: Sequence[str] = (), topics: Sequence[str] = ()) -> FleetProgress:
    async def main() -> FleetProgress:
        async with cluster.client(open_ended=True) as client:
            return await passing(cluster.clock, fetch_fleet_progress(client, groups, topics))

    return run(main())


def _shown(cluster: Cluster, groups: Sequence[str]) -> list[GroupProgress]:
    async def main() -> list[GroupProgress]:
        async with cluster.client() as client:
            return (await passing(cluster.clock, fetch_matching_progress(client, groups)))[0]

    return run(main())


# What is left out on purpose, and so the reasons of it.
_AGES = {"headAgeMs", "timeLagMs", "retentionLeftMs", "retentionMs"}


def _plain(progress: GroupProgress) -> dict[str, Any]:
    rows = [
        {
            **{name: getattr(row, name) for name in row.__struct_fields__ if name not in ("time_lag_ms", "reasons")},
            "at_ms": row.at_ms is not None,
            "time_lag_source": None,
            "retention_left_ms": None,
            "reasons": {name: reason for name, reason in row.reasons.items() if name not in _AGES},
        }
        for row in progress.rows
    ]
    same = ("group", "state", "member_count", "unseen_reason", "message_model", "consume_type", "notes")
    return {**{name: getattr(progress, name) for name in same}, "rows": rows}


@pytest.mark.parametrize("version", [V5_4_0, V4_9_7])
def test_rows_are_those_of_each_group_by_itself(version: int) -> None:
    cluster = _cluster(version)
    fleet = _fleet(cluster)
    assert [group.group for group in fleet.groups] == [
        "busy", "idle", "left", "lost", "never", "popping", "silent", "zero",
    ]  # fmt: skip
    assert [_plain(group) for group in fleet.groups] == [_plain(group) for group in _shown(cluster, ["*"])]
    assert fleet.clusters == {"broker-a": "C", "broker-b": "C"}


def test_a_row_has_the_time_of_the_answer_with_its_max_offset() -> None:
    cluster = _cluster()
    for name, code, late_s in (("broker-b", Q.GET_CONSUME_STATS, 2.0), ("broker-a", Q.GET_TOPIC_STATS_INFO, 1.0)):
        table = cluster.servers[name].table
        table[code] = Late(late_s, table[code])
    begun_ms = cluster.clock.now_ms()
    times_s = {
        (group.group, str(row.mq)): None if row.at_ms is None else (row.at_ms - begun_ms) // 1000
        for group in _fleet(cluster, ["busy", "zero"]).groups
        for row in group.rows
        if row.mq.topic == "T"
    }
    # Consume stats do not show whether an offset of 0 is stored: topic stats are read after the answer that does.
    assert times_s == {
        ("busy", "T@broker-a:0"): 0, ("busy", "T@broker-a:1"): 0, ("busy", "T@broker-b:0"): 2,
        ("zero", "T@broker-a:0"): 3, ("zero", "T@broker-a:1"): 3, ("zero", "T@broker-b:0"): 2,
    }  # fmt: skip


def test_what_rows_say() -> None:
    groups = {group.group: group for group in _fleet(_cluster()).groups}
    rows = {(group, row.mq.topic, str(row.mq)[-10:]): row for group in groups for row in groups[group].rows}

    busy = rows["busy", "T", "broker-a:0"]
    assert (busy.min_offset, busy.max_offset, busy.consumer_offset, busy.lag) == (7, 100, 20, 80)
    assert busy.client_ids == ("one", "two")
    assert rows["busy", "T", "broker-b:0"].client_ids == ("one",)
    assert rows["busy", "%RETRY%busy", "broker-a:0"].lag == 2
    assert rows["busy", "U", "broker-a:0"].lag == 0
    zero, none = rows["zero", "T", "broker-a:0"], rows["zero", "T", "broker-a:1"]
    assert (zero.consumer_offset, zero.lag, zero.lost) == (0, 93, 7)
    assert (none.consumer_offset, none.lag) == (None, None)
    assert none.reasons["consumerOffset"] is Unknown.NEVER_COMMITTED
    assert rows["lost", "T", "broker-a:1"].reasons["lag"] is Unknown.OFFSET_BEYOND_MAX
    assert groups["idle"].rows == ()
    assert rows["silent", "T", "broker-a:0"].reasons["clientId"] is Unknown.CLIENT_SILENT
    # A topic that is gone has no queues any more, though its offsets are stored.
    assert not [key for key in rows if key[1] == "GONE"]


def test_few_requests_are_sent() -> None:
    cluster = _cluster()
    _fleet(cluster)
    counts = Counter(cluster.servers["broker-a"].codes())
    assert counts == {
        Q.GET_ALL_CONSUMER_OFFSET: 1,
        Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: 1,
        # Eight groups, and whether proxies are there.
        Q.GET_CONSUME_STATS: 8,
        Q.GET_CONSUMER_CONNECTION_LIST: 9,
        Q.GET_CONSUMER_RUNNING_INFO: 5,
        # T, U, E and the retry topic, however many groups have them.
        Q.GET_TOPIC_STATS_INFO: 4,
    }


def test_groups_and_topics_can_be_picked() -> None:
    cluster = _cluster()
    assert [group.group for group in _fleet(cluster, ["z*", "busy"]).groups] == ["busy", "zero"]
    assert [group.group for group in _fleet(cluster, ["zero"]).groups] == ["zero"]
    assert [group.group for group in _fleet(cluster, ["TOOLS_CONSUMER"]).groups] == ["TOOLS_CONSUMER"]
    fleet = _fleet(cluster, topics=["U", "%RETRY%*"])
    assert [group.group for group in fleet.groups] == ["busy"]
    assert [row.mq.topic for row in fleet.groups[0].rows] == ["%RETRY%busy", "U"]
    assert fleet.groups[0].asked_topics == ("U", "%RETRY%*")
    for groups, topics, sentence in (
        (["x*"], (), "No group matches x*."),
        (["nobody"], (), "Group nobody does not exist."),
        ((), ["V*"], "No topic matches V*."),
    ):
        with pytest.raises(NotFoundError) as caught:
            _fleet(cluster, groups, topics)
        assert caught.value.sentence == sentence


def test_a_group_that_is_not_there_does_not_take_the_others_along() -> None:
    fleet = _fleet(_cluster(), ["nobody", "zero"])
    assert [group.group for group in fleet.groups] == ["zero"]
    assert [(failure.what, failure.error.name) for failure in fleet.failures] == [("group nobody", "NOT_FOUND")]


def test_no_groups_at_all_are_no_error() -> None:
    assert _fleet(Cluster(BrokerState("broker-a"))).groups == ()


@pytest.mark.parametrize(("groups", "is_there"), [(["busy"], True), ((), True), (["b*"], True), (["x*"], False)])
def test_groups_can_be_required_first(groups: Sequence[str], is_there: bool) -> None:
    cluster = _cluster()

    async def main() -> None:
        async with cluster.client() as client:
            await passing(cluster.clock, require_groups(client, groups))

    if is_there:
        run(main())
    else:
        with pytest.raises(NotFoundError):
            run(main())


def test_a_name_that_is_no_group_is_told_first() -> None:
    async def main() -> None:
        async with _cluster().client() as client:
            await require_groups(client, ["bussy"])

    with pytest.raises(NotFoundError, match="Group bussy does not exist"):
        run(main())


def test_what_one_broker_does_not_tell_is_unknown_and_said_once() -> None:
    cluster = _cluster()
    cluster.stop("broker-b")
    fleet = _fleet(cluster)
    row = next(row for group in fleet.groups if group.group == "busy" for row in group.rows if row.mq == B0)
    assert (row.min_offset, row.max_offset, row.consumer_offset, row.lag) == (None, None, None, None)
    assert row.reasons["consumerOffset"] is Unknown.BROKER_UNREACHABLE
    assert {group.group: group.state for group in fleet.groups}["zero"] is GroupState.UNKNOWN
    # It may have queues that no row stands for.
    assert {group.hidden_anywhere for group in fleet.groups} == {Unknown.BROKER_UNREACHABLE}
    told = [(failure.broker_name, failure.what) for failure in fleet.failures if failure.broker_name == "broker-b"]
    assert told == [("broker-b", "names of groups"), ("broker-b", "offsets of busy and 7 more groups")]


def test_nobody_answers() -> None:
    cluster = _cluster()
    cluster.stop("broker-a")
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError):
        _fleet(cluster)


def test_a_broker_that_is_silent_is_given_up_after_three_groups() -> None:
    a = BrokerState("broker-a", topics={"T": [Queue(9)]}, offsets={f"g{n:02}": {"T": {0: 1}} for n in range(40)})
    cluster = Cluster(a, BrokerState("broker-b", topics={"T": [Queue(9)]}))
    cluster.servers["broker-b"].table[Q.GET_CONSUME_STATS] = SILENCE
    fleet = _fleet(cluster)
    assert len(fleet.groups) == 40
    # Eight groups were under way.
    assert cluster.servers["broker-b"].codes().count(Q.GET_CONSUME_STATS) <= 3 + 8
    assert ("broker-b", "offsets of g00 and 39 more groups") in [
        (failure.broker_name, failure.what) for failure in fleet.failures
    ]


def test_members_that_never_answer_are_given_up() -> None:
    groups = {f"g{n:02}": Group({f"mute{n}": refused(R.CONSUME_MSG_TIMEOUT, "timeout")}) for n in range(60)}
    a = BrokerState("broker-a", topics={"T": [Queue(9)]}, configured=set(groups), groups=groups)
    cluster = Cluster(a)
    fleet = _fleet(cluster)
    assert cluster.servers["broker-a"].codes().count(Q.GET_CONSUMER_RUNNING_INFO) == 32
    assert {row.reasons["clientId"] for group in fleet.groups for row in group.rows} == {Unknown.CLIENT_SILENT}
    assert {failure.what.split(" of ")[0] for failure in fleet.failures} == {"running info"}
    assert len(fleet.failures) <= 2


def test_a_table_that_may_not_be_read_is_asked_for_queue_by_queue() -> None:
    cluster = _cluster()
    for server in cluster.servers.values():
        server.table[Q.GET_ALL_CONSUMER_OFFSET] = refused(R.NO_PERMISSION, "no")
    fleet = _fleet(cluster, ["zero"])
    rows = {row.mq: row for row in fleet.groups[0].rows}
    assert (rows[A0].consumer_offset, rows[A1].consumer_offset) == (0, None)
    assert rows[A1].reasons["consumerOffset"] is Unknown.NEVER_COMMITTED
    assert fleet.failures == ()


def test_messages_in_a_retry_topic_that_nobody_ever_read_are_the_groups() -> None:
    cluster = _cluster()
    cluster.brokers["broker-a"].topics["%RETRY%zero"] = [Queue(3)]
    rows = {str(row.mq): row for group in _fleet(cluster).groups if group.group == "zero" for row in group.rows}
    assert rows["%RETRY%zero@broker-a:0"].reasons["lag"] is Unknown.NEVER_COMMITTED


def test_a_connection_that_ends_is_opened_again() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].fail_next(Q.GET_CONSUME_STATS, DROP)
    assert not [failure for failure in _fleet(cluster).failures if failure.broker_name]


def test_what_a_slave_lacks_and_what_no_consumer_can_read_is_told_as_of_one_group() -> None:
    cluster = _cluster()
    a = cluster.brokers["broker-a"]
    a.offsets["busy"] = {"T": {1: 90, 5: 3}}
    a.cut_queues = {("T", 5): Queue(9)}
    cluster.slaves = {"broker-a"}
    (fleet,) = _fleet(cluster, ["busy"]).groups
    (shown,) = _shown(cluster, ["busy"])
    assert _plain(fleet) == _plain(shown)
    assert (fleet.hidden, fleet.unreadable, fleet.cut) == (shown.hidden, shown.unreadable, shown.cut)
    assert {row.mq: row.reasons.get("consumerOffset") for row in fleet.rows}[A0] is Unknown.SLAVE_ANSWERED
    assert fleet.unreadable == {MessageQueue("T", "broker-a", 5): 6}
    with pytest.raises(UnreachableError):
        _fleet(cluster, ["no-*"])


_TELLS = running({A0: held(commit=20)}, subscriptions=[subscribed("T")])


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"one": _TELLS}, ({"OLD", "T"}, {"OLD"})),
        # Who did not answer may subscribe to it.
        ({"one": _TELLS, "two": refused(R.CONSUME_MSG_TIMEOUT, "timeout")}, ({"T"}, set())),
        # An application that pulls needs no subscription.
        ({"one": running(PROP_CONSUME_TYPE="CONSUME_ACTIVELY")}, ({"T"}, set())),
        ({"one": running(subscriptions=[subscribed("T"), subscribed("OLD")])}, ({"OLD", "T"}, set())),
    ],
)
def test_a_topic_that_an_online_group_has_left(members: dict[str, Any], expected: tuple[set[str], set[str]]) -> None:
    """Brokers do not report its offsets: they leave out topics without a subscription."""
    a = BrokerState(
        "broker-a",
        topics={"T": [Queue(100)], "OLD": [Queue(50)]},
        offsets={"busy": {"T": {0: 20}, "OLD": {0: 30}, "DELETED": {0: 1}}},
        configured={"busy"},
    )
    a.groups = {"busy": Group(members, topics=("T",))}
    (found,) = _fleet(Cluster(a)).groups
    lags = {row.mq.topic: row.lag for row in found.rows if not row.mq.topic.startswith("%RETRY%")}
    assert (lags.keys(), found.left) == expected
    assert lags.get("OLD", 20) == 20


def test_names_of_groups_are_complete_or_unknown() -> None:
    cluster = _cluster()
    fleet = _fleet(cluster)
    assert fleet.configured == {"busy", "zero", "idle", "never", "lost", "popping", "silent"}
    assert fleet.names == fleet.configured | {"left", "TOOLS_CONSUMER"}
    # One named group is looked up alone.
    assert _fleet(cluster, ["busy"]).names is None
    cluster.servers["broker-b"].table[Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = SILENCE
    fleet = _fleet(cluster)
    assert (fleet.names, fleet.configured) == (None, None)


def test_a_broker_that_only_members_name_may_have_more_of_each_group() -> None:
    cluster = _cluster()
    cluster.brokers["broker-a"].groups["busy"].members["one"] = running(
        {A0: held(), MessageQueue("T", "broker-c", 0): held()}
    )
    fleet = _fleet(cluster)
    assert (fleet.unlisted, fleet.names, fleet.configured) == ({"broker-c"}, None, None)
    assert {group.hidden_anywhere for group in fleet.groups} == {Unknown.BROKER_NOT_REGISTERED}
    assert _fleet(_cluster()).unlisted == frozenset()
