from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from rmqctl.admin.offsets.group import fetch_group_progress
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.errors import (
    BrokerError,
    NoBrokerError,
    NotAuthorisedError,
    NotFoundError,
    RemoteProtocolError,
    UnreachableError,
)
from rmqctl.model.group import GroupState
from rmqctl.model.progress import PulledSource, QueueProgress, TimeLagSource, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.command import Command
from rmqctl.protocol.java_json import loads
from tests.admin import recorded_answers
from tests.admin.cluster import HOUR_MS, BrokerState, Cluster, Group, Queue, held, running, subscribed
from tests.scripted_peer import DROP, SILENCE, V4_9_7, V5_4_0, Late, Raw, Reply, ok, passing, refused, run

A0, A1, B0, B1 = (MessageQueue("T", f"broker-{name}", number) for name in "ab" for number in range(2))


def _brokers(version: int = V5_4_0) -> tuple[BrokerState, BrokerState]:
    """Return two brokers with two queues of T each; group G has come to 40 to 70 of 100 everywhere."""
    a, b = (BrokerState(f"broker-{name}", version) for name in "ab")
    for broker in (a, b):
        broker.topics["T"] = [Queue(100), Queue(100)]
        broker.configured |= {"G", "TOOLS_CONSUMER"}
    a.offsets["G"] = {"T": {0: 40, 1: 50}}
    b.offsets["G"] = {"T": {0: 60, 1: 70}}
    return a, b


def _fetch(cluster: Cluster, group: str = "G", topics: Sequence[str] = (), *, timeout_s: float = 10) -> GroupProgress:
    async def scenario() -> GroupProgress:
        async with cluster.client(timeout_s) as client:
            return await passing(cluster.clock, fetch_group_progress(client, group, topics))

    return run(scenario())


def _rows(progress: GroupProgress) -> dict[MessageQueue, QueueProgress]:
    return {row.mq: row for row in progress.rows}


def _assert_explained(progress: GroupProgress) -> None:
    names = {
        "min_offset": "minOffset",
        "max_offset": "maxOffset",
        "consumer_offset": "consumerOffset",
        "pull_offset": "pullOffset",
        "lag": "lag",
        "lost": "lost",
        "inflight": "inflight",
        "duplicate_risk": "duplicateRisk",
        "last_timestamp_ms": "lastTimestamp",
        "time_lag_ms": "timeLagMs",
        "retention_left_ms": "retentionLeftMs",
    }
    for row in progress.rows:
        for name, key in names.items():
            assert getattr(row, name) is not None or key in row.reasons, (row.mq, name)
        assert len(row.client_ids) == 1 or "clientId" in row.reasons, row.mq


# A whole cluster


def test_every_queue_of_both_brokers_has_a_row_in_order() -> None:
    progress = _fetch(Cluster(*_brokers()))
    assert [row.mq for row in progress.rows] == [A0, A1, B0, B1]
    assert [row.consumer_offset for row in progress.rows] == [40, 50, 60, 70]
    assert [row.lag for row in progress.rows] == [60, 50, 40, 30]
    assert progress.failures == ()
    assert progress.consume_tps == 3.0
    _assert_explained(progress)


def test_a_row_carries_what_every_answer_said() -> None:
    a, b = _brokers()
    a.topics["T"][0] = Queue(100, 10, head_age_ms=7_000)
    a.pulls["G", "T", 0] = 72
    a.groups["G"] = Group({"c1": running({A0: held(2, 40, 71, 40)})})
    row = _rows(_fetch(Cluster(a, b)))[A0]
    assert (row.min_offset, row.max_offset, row.consumer_offset, row.pull_offset) == (10, 100, 40, 72)
    assert (row.lag, row.lost, row.inflight, row.duplicate_risk) == (60, 0, 32, 30)
    assert (row.duplicate_risk_source, row.time_lag_source) == (PulledSource.BROKER, TimeLagSource.HEAD_STORE_TIME)
    assert (row.time_lag_ms, row.retention_left_ms) == (7_000, 72 * HOUR_MS - 7_000)
    assert row.last_timestamp_ms == 1_795_238_122_995
    assert row.client_ids == ("c1",)


def test_a_group_without_members_is_empty_and_one_with_members_is_online() -> None:
    a, b = _brokers()
    empty = _fetch(Cluster(a, b))
    assert (empty.state, empty.member_count, empty.message_model, empty.consume_type) == (
        GroupState.EMPTY,
        0,
        None,
        None,
    )
    assert {row.reasons["clientId"] for row in empty.rows} == {Unknown.NO_MEMBERS}
    for broker in (a, b):
        broker.groups["G"] = Group({"c1": running({A0: held(commit=40)}), "c2": running()})
    online = _fetch(Cluster(a, b))
    assert (online.state, online.member_count) == (GroupState.ONLINE, 2)
    assert (online.message_model, online.consume_type) == ("CLUSTERING", "CONSUME_PASSIVELY")
    assert _rows(online)[A0].client_ids == ("c1",)
    assert _rows(online)[A1].reasons["clientId"] is Unknown.NOT_ASSIGNED


def test_a_member_is_asked_once_however_many_brokers_it_is_connected_to() -> None:
    a, b = _brokers()
    for broker in (a, b):
        broker.groups["G"] = Group({"c1": running()})
    cluster = Cluster(a, b)
    _fetch(cluster)
    asked = [code for server in cluster.servers.values() for code in server.codes()]
    assert asked.count(Q.GET_CONSUMER_RUNNING_INFO) == 1


def test_only_requests_that_leave_no_trace_are_sent() -> None:
    a, b = _brokers()
    b.offsets["G"]["T"] = {0: 0}
    a.groups["G"] = Group({"c1": running()})
    cluster = Cluster(a, b)
    _fetch(cluster)
    asked = {code for server in cluster.servers.values() for code in server.codes()}
    assert asked == {
        Q.GET_CONSUME_STATS,
        Q.GET_CONSUMER_CONNECTION_LIST,
        Q.GET_TOPIC_STATS_INFO,
        Q.QUERY_CONSUME_TIME_SPAN,
        Q.GET_CONSUMER_RUNNING_INFO,
        Q.QUERY_CONSUMER_OFFSET,
        Q.GET_BROKER_CONFIG,
        Q.GET_BROKER_RUNTIME_INFO,
    }
    assert set(cluster.name_server.codes()) == {
        Q.GET_BROKER_CLUSTER_INFO,
        Q.GET_ROUTEINFO_BY_TOPIC,
        Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    }


def test_a_given_topic_narrows_the_rows() -> None:
    a, b = _brokers()
    a.topics["U"] = [Queue(10)]
    a.offsets["G"]["U"] = {0: 3}
    cluster = Cluster(a, b)
    assert {row.mq.topic for row in _fetch(cluster).rows} == {"T", "U"}
    progress = _fetch(cluster, topics=["U"])
    assert [(str(row.mq), row.lag) for row in progress.rows] == [("U@broker-a:0", 7)]


def test_a_brokers_retention_is_asked_only_where_something_is_unread() -> None:
    a, b = _brokers()
    b.offsets["G"] = {"T": {0: 100, 1: 100}}
    cluster = Cluster(a, b)
    progress = _fetch(cluster)
    assert Q.GET_BROKER_CONFIG in cluster.servers["broker-a"].codes()
    assert Q.GET_BROKER_CONFIG not in cluster.servers["broker-b"].codes()
    assert _rows(progress)[B0].reasons["retentionLeftMs"] is Unknown.NOTHING_UNREAD


def test_a_disk_above_its_limit_keeps_nothing_for_sure() -> None:
    a, b = _brokers()
    a.disk_ratio = 0.86
    assert _rows(_fetch(Cluster(a, b)))[A0].retention_left_ms == -5_000
    # Above diskMaxUsedSpaceRatio (75) and below forced cleaning (85) only aged files go.
    a.disk_ratio = 0.8
    assert _rows(_fetch(Cluster(a, b)))[A0].retention_left_ms == 72 * 3_600_000 - 5_000


@pytest.mark.parametrize("ratio", [-1.0, float("nan"), 80.0])
def test_a_disk_ratio_that_is_none_leaves_the_retention_unknown(ratio: float) -> None:
    a, b = _brokers()
    a.disk_ratio = ratio
    row = _rows(_fetch(Cluster(a, b)))[A0]
    assert row.retention_left_ms is None
    assert row.reasons["retentionLeftMs"] is Unknown.NOT_REPORTED


def test_a_configuration_that_may_not_be_read_is_named_and_the_rest_stands() -> None:
    cluster = Cluster(*_brokers())
    denied = refused(R.NO_PERMISSION, "no")
    for server in cluster.servers.values():
        server.table[Q.GET_BROKER_CONFIG] = denied
    progress = _fetch(cluster)
    assert {(failure.what, failure.error.exit_code) for failure in progress.failures} == {("retention", 4)}
    assert all(row.lag is not None for row in progress.rows)
    assert {row.reasons["retentionLeftMs"] for row in progress.rows} == {Unknown.NOT_REPORTED}


# What real servers answered


@pytest.mark.parametrize("version", ["4.9.7", "5.4.0"])
def test_the_scripted_brokers_answers_have_the_recorded_shapes(version: str) -> None:
    group = Group({"c1": running({A0: held()})}, ("T", "%RETRY%G"))
    state = BrokerState("broker-a", V5_4_0 if version == "5.4.0" else V4_9_7, {"T": [Queue(3)]})
    state.offsets["G"] = {"T": {0: 1}}
    state.configured = {"G"}
    state.groups["G"] = group
    cluster = Cluster(state)
    tables = {**cluster.name_server.table, **cluster.servers["broker-a"].table}
    fields = {"consumerGroup": "G", "topic": "T", "group": "G", "clientId": "c1", "queueId": "0"}
    for code in (
        Q.GET_BROKER_CLUSTER_INFO,
        Q.GET_ROUTEINFO_BY_TOPIC,
        Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        Q.GET_CONSUME_STATS,
        Q.GET_CONSUMER_CONNECTION_LIST,
        Q.GET_TOPIC_STATS_INFO,
        Q.GET_CONSUMER_RUNNING_INFO,
        Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    ):
        reply = tables[code]
        while callable(reply):
            reply = reply(Command(code, fields))
        assert isinstance(reply, Command)
        real = _shape(loads(recorded_answers.answer(version, code).body))
        # A scripted answer may leave out what nobody reads, and holds nothing that real ones don't.
        _assert_within(_shape(loads(reply.body)), real, Q(code).name)


def _shape(value: object) -> object:
    """Return the kinds of a value and of what is in it; maps with names for keys show one of their values."""
    if hasattr(value, "items"):
        pairs = list(value.items())
        if pairs and (isinstance(pairs[0][0], dict) or not str(pairs[0][0]).isidentifier()):
            return {"any": _shape(pairs[0][1])}
        tables = {"brokerAddrTable", "subscriptionGroupTable", "subscriptionTable", "properties", "clusterAddrTable"}
        return {
            key: {"any": next(map(_shape, dict(item).values()), None)} if key in tables else _shape(item)
            for key, item in pairs
        }
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    return type(value).__name__


def _assert_within(made: object, real: object, where: str) -> None:
    if isinstance(made, dict):
        assert isinstance(real, dict), where
        for key, item in made.items():
            assert key in real, f"{where}.{key}"
            if item is not None and real[key] is not None:
                _assert_within(item, real[key], f"{where}.{key}")
    elif isinstance(made, list):
        assert isinstance(real, list), where
        if made and real:
            _assert_within(made[0], real[0], f"{where}[]")
    else:
        assert made == real, where


@pytest.mark.parametrize(
    ("version", "ordinal", "expected"),
    [
        # topic, queue, max, consumer, pull, lag, in flight, risk, by, owner
        (
            "5.4.0",
            V5_4_0,
            [
                ("%RETRY%ship-workers", 0, 22, 22, 22, 0, 0, 0, "BROKER", "192.0.2.2@c1"),
                ("ship", 0, 101, 101, 101, 0, 0, 0, "BROKER", "192.0.2.2@c1"),
                ("ship", 1, 100, 100, 100, 0, 0, 0, "BROKER", "192.0.2.2@c1"),
                ("ship", 2, 102, 6, 102, 96, 96, 85, "BROKER", "192.0.2.2@c2"),
                ("ship", 3, 100, 5, 100, 95, 95, 84, "BROKER", "192.0.2.2@c2"),
            ],
        ),
        (
            "4.9.7",
            V4_9_7,
            [
                ("%RETRY%ship-workers", 0, 22, 22, None, 0, None, 0, "CLIENT", "192.0.2.2@c1"),
                ("ship", 0, 101, 101, None, 0, None, 0, "CLIENT", "192.0.2.2@c1"),
                ("ship", 1, 101, 101, None, 0, None, 0, "CLIENT", "192.0.2.2@c1"),
                ("ship", 2, 101, 9, None, 92, None, 80, "CLIENT_WINDOW", "192.0.2.2@c2"),
                ("ship", 3, 100, 6, None, 94, None, 85, "CLIENT_WINDOW", "192.0.2.2@c2"),
            ],
        ),
    ],
)
def test_a_recorded_group_is_read_as_it_was(version: str, ordinal: int, expected: list[tuple[object, ...]]) -> None:
    group = {"consumerGroup": "ship-workers"}
    cluster = Cluster(BrokerState("broker-a", ordinal, {"%RETRY%ship-workers": [Queue(22)]}))
    cluster.network.servers["127.0.0.1:10911"] = server = cluster.servers["broker-a"]
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = recorded_answers.answer(version, Q.GET_BROKER_CLUSTER_INFO)
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = lambda request: recorded_answers.answer(
        version, Q.GET_ROUTEINFO_BY_TOPIC, topic=request.ext_fields["topic"]
    )
    topic_stats = recorded_answers.answer(version, Q.GET_TOPIC_STATS_INFO, topic="ship")
    made = server.table[Q.GET_TOPIC_STATS_INFO]
    server.table |= {
        Q.GET_CONSUME_STATS: recorded_answers.answer(version, Q.GET_CONSUME_STATS, **group),
        Q.GET_CONSUMER_CONNECTION_LIST: recorded_answers.answer(version, Q.GET_CONSUMER_CONNECTION_LIST, **group),
        Q.GET_TOPIC_STATS_INFO: lambda request: topic_stats if request.ext_fields["topic"] == "ship" else made,
        Q.GET_CONSUMER_RUNNING_INFO: lambda request: recorded_answers.answer(
            version, Q.GET_CONSUMER_RUNNING_INFO, clientId=request.ext_fields["clientId"], **group
        ),
    }
    progress = _fetch(cluster, "ship-workers")
    assert [
        (
            row.mq.topic,
            row.mq.queue_id,
            row.max_offset,
            row.consumer_offset,
            row.pull_offset,
            row.lag,
            row.inflight,
            row.duplicate_risk,
            row.duplicate_risk_source,
            ",".join(row.client_ids),
        )
        for row in progress.rows
    ] == expected
    assert (progress.state, progress.member_count, progress.message_model) == (GroupState.ONLINE, 2, "CLUSTERING")


# A part of the cluster fails


def test_a_broker_that_is_down_keeps_its_rows_and_is_a_failure() -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    progress = _fetch(cluster)
    rows = _rows(progress)
    assert (rows[A0].lag, rows[A1].lag) == (60, 50)
    for mq in (B0, B1):
        row = rows[mq]
        assert (row.max_offset, row.consumer_offset, row.lag, row.lost, row.inflight) == (None,) * 5
        assert {row.reasons[key] for key in ("consumerOffset", "lag", "lost", "inflight", "timeLagMs")} == {
            Unknown.BROKER_UNREACHABLE
        }
    (failure,) = progress.failures
    assert (failure.broker_name, failure.what, failure.error.name) == ("broker-b", "offsets", "UNREACHABLE")
    assert (progress.state, progress.member_count) == (GroupState.UNKNOWN, None)
    assert {row.reasons["clientId"] for row in progress.rows} == {Unknown.BROKER_UNREACHABLE}
    _assert_explained(progress)


def test_members_seen_at_one_broker_make_the_group_online_though_another_is_down() -> None:
    a, b = _brokers()
    for broker in (a, b):
        broker.groups["G"] = Group({"c1": running({A0: held(commit=40), B0: held(commit=60)})})
    cluster = Cluster(a, b)
    cluster.stop("broker-b")
    progress = _fetch(cluster)
    assert progress.state is GroupState.ONLINE
    # The client itself tells what it holds of the broker that is down.
    assert _rows(progress)[B0].client_ids == ("c1",)


def test_queues_that_members_hold_at_a_broker_which_is_named_no_more_are_shown_and_it_is_a_failure() -> None:
    a = _brokers()[0]
    holds = {A0: held(commit=40), B0: held(commit=60), B1: held(commit=70, dropped=True)}
    a.groups["G"] = Group({"c1": running(holds)})
    # 5.x drops a broker from every route the moment that it dies.
    progress = _fetch(Cluster(a))
    assert [row.mq for row in progress.rows] == [A0, A1, B0]
    row = _rows(progress)[B0]
    assert (row.lag, row.client_ids) == (None, ("c1",))
    assert row.reasons["lag"] is row.reasons["maxOffset"] is Unknown.BROKER_NOT_REGISTERED
    (failure,) = progress.failures
    assert (failure.broker_name, failure.what, failure.error.exit_code) == ("broker-b", "offsets", 6)
    _assert_explained(progress)


@pytest.mark.parametrize("reply", [SILENCE, DROP, Raw(b"HTTP/1.1 400\r\n\r\n"), refused(R.SYSTEM_BUSY)])
def test_a_broker_that_answers_the_first_question_badly_is_a_failure_and_not_the_end(reply: Reply) -> None:
    cluster = Cluster(*_brokers())
    cluster.servers["broker-b"].table[Q.GET_CONSUME_STATS] = reply
    progress = _fetch(cluster)
    assert [failure.broker_name for failure in progress.failures] == ["broker-b"]
    assert _rows(progress)[A0].lag == 60
    assert _rows(progress)[B0].lag is None
    _assert_explained(progress)


def test_nobody_answering_is_unreachable() -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-a")
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError, match="connection refused"):
        _fetch(cluster)


def test_a_name_server_that_is_down_is_unreachable() -> None:
    cluster = Cluster(*_brokers())
    cluster.network.refusing.add("ns:1")
    with pytest.raises(UnreachableError, match="Name server ns:1: connection refused"):
        _fetch(cluster, topics=["T", "U"])


def test_everybody_refusing_is_not_authorised() -> None:
    cluster = Cluster(*_brokers())
    denied = refused(1, "org.apache.rocketmq.acl.common.AclException: no")
    cluster.servers["broker-a"].table[Q.GET_CONSUME_STATS] = denied
    cluster.stop("broker-b")
    with pytest.raises(NotAuthorisedError):
        _fetch(cluster)


def test_a_broker_with_an_address_that_is_none_is_a_failure_like_any_other() -> None:
    cluster = Cluster(*_brokers())
    info = b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"a:1"},"brokerName":"broker-a","cluster":"C"},'
    info += b'"broker-b":{"brokerAddrs":{0:"null"},"brokerName":"broker-b","cluster":"C"}}}'
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(info)
    (failure,) = _fetch(cluster).failures
    assert (failure.broker_name, failure.error.exit_code) == ("broker-b", 6)


def test_a_cluster_without_brokers_is_unreachable() -> None:
    cluster = Cluster()
    with pytest.raises(NoBrokerError, match="No broker has registered"):
        _fetch(cluster)


def test_a_slave_answers_for_its_master_and_that_is_a_failure() -> None:
    cluster = Cluster(*_brokers())
    info = b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"gone:1",1:"a:1"},"brokerName":"broker-a"}}}'
    cluster.name_server.table[Q.GET_BROKER_CLUSTER_INFO] = ok(info)
    progress = _fetch(cluster)
    assert _rows(progress)[A0].lag == 60
    assert [(failure.broker_name, failure.what) for failure in progress.failures] == [
        ("broker-a", "master, its slave answered")
    ]


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_what_a_slave_lacks_is_unknown_and_not_none(version: int) -> None:
    a, b = _brokers(version)
    a.offsets, a.topics["%RETRY%G"] = {"G": {"T": {1: 50}}}, [Queue()]
    cluster = Cluster(a, b)
    cluster.slaves = {"broker-a"}
    progress = _fetch(cluster)
    rows = _rows(progress)
    assert (rows[A0].consumer_offset, rows[A0].lag, rows[A1].lag) == (None, None, 50)
    assert rows[A0].reasons["consumerOffset"] is rows[A0].reasons["lag"] is Unknown.SLAVE_ANSWERED
    # The slave has no message of it yet.
    assert MessageQueue("%RETRY%G", "broker-a", 0) in rows
    # Neither are members that it does not see, nor topics and messages that it has not copied.
    assert (progress.state, progress.unseen_reason) == (GroupState.UNKNOWN, Unknown.BROKER_UNREACHABLE)
    assert progress.hidden_anywhere is Unknown.SLAVE_ANSWERED
    assert _fetch(cluster, topics=["T"]).hidden == {"T": Unknown.SLAVE_ANSWERED}
    _assert_explained(progress)


def test_nothing_is_called_missing_while_a_slave_answers() -> None:
    a, b = _brokers()
    a.offsets, a.configured = {}, set()
    cluster = Cluster(a, b)
    cluster.slaves = {"broker-a"}
    for group, topics in (("H", []), ("G", ["no-*"])):
        with pytest.raises(UnreachableError, match="the master of broker-a could not be read"):
            _fetch(cluster, group, topics)


def test_answers_beside_the_first_that_fail_are_named_and_the_rest_stands() -> None:
    cluster = Cluster(*_brokers())
    for code in (Q.GET_TOPIC_STATS_INFO, Q.QUERY_CONSUME_TIME_SPAN, Q.GET_BROKER_RUNTIME_INFO):
        cluster.servers["broker-b"].table[code] = refused(R.SYSTEM_ERROR, "broken")
    progress = _fetch(cluster)
    assert {(failure.broker_name, failure.what) for failure in progress.failures} == {
        ("broker-b", "min and max offsets of T"),
        ("broker-b", "message ages of T"),
        ("broker-b", "retention"),
    }
    row = _rows(progress)[B0]
    # The message before the offset still exists, so nothing behind it was deleted.
    assert (row.lag, row.max_offset, row.lost, row.time_lag_ms) == (40, 100, 0, None)
    _assert_explained(progress)


def test_a_route_that_can_not_be_read_is_a_failure_and_the_queues_with_offsets_stay() -> None:
    cluster = Cluster(*_brokers())
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = refused(R.SYSTEM_ERROR, "broken")
    progress = _fetch(cluster)
    assert [(failure.broker_name, failure.what) for failure in progress.failures] == [(None, "route of T")]
    assert [row.mq for row in progress.rows] == [A0, A1, B0, B1]


# What does not exist


def test_a_group_that_no_broker_knows_is_not_found_with_names_alike() -> None:
    a, b = _brokers()
    a.configured |= {"payments", "payouts"}
    with pytest.raises(NotFoundError, match="Group paymnets does not exist") as caught:
        _fetch(Cluster(a, b), "paymnets")
    assert caught.value.suggestions[0] == "payments"
    assert "payments" in (caught.value.hint or "")


def test_a_group_that_may_be_known_by_a_broker_that_is_down_is_not_called_missing() -> None:
    cluster = Cluster(*_brokers())
    cluster.stop("broker-b")
    with pytest.raises(UnreachableError) as caught:
        _fetch(cluster, "nobody")
    assert "nobody was not found, but broker-b could not be read" in caught.value.sentence


def test_a_group_that_nobody_can_look_up_is_an_error_of_its_own() -> None:
    cluster = Cluster(*_brokers())
    for server in cluster.servers.values():
        server.table[Q.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = refused(R.SYSTEM_BUSY)
    with pytest.raises(BrokerError, match="SYSTEM_BUSY"):
        _fetch(cluster, "nobody")


def test_a_group_that_is_configured_and_never_consumed_has_no_rows() -> None:
    a, b = _brokers()
    b.configured.add("fresh")
    progress = _fetch(Cluster(a, b), "fresh")
    assert (progress.rows, progress.state, progress.failures) == ((), GroupState.EMPTY, ())


def test_a_group_that_is_connected_and_has_no_offset_shows_its_subscription() -> None:
    a, b = _brokers()
    a.groups["new"] = Group({"c1": running({A0: held(commit=100)})})
    progress = _fetch(Cluster(a, b), "new")
    assert [row.mq for row in progress.rows] == [A0, A1, B0, B1]
    assert {row.reasons["consumerOffset"] for row in progress.rows} == {Unknown.NEVER_COMMITTED}
    assert {row.lag for row in progress.rows} == {None}


def test_a_topic_that_does_not_exist_is_not_found_with_names_alike() -> None:
    a, b = _brokers()
    a.topics["orders"] = [Queue()]
    with pytest.raises(NotFoundError, match="Topic ordesr does not exist") as caught:
        _fetch(Cluster(a, b), topics=["ordesr"])
    assert caught.value.suggestions == ("orders",)


# Members of one group that want different topics: brokers name only those of whoever was heard last


def _torn_group(version: int = V5_4_0) -> tuple[BrokerState, BrokerState]:
    """Return brokers that name T only, c2's topic; c1 says that it wants and holds U, of which each has a queue."""
    a, b = _brokers(version)
    members = {
        "c1": running({("U", "broker-a", 0): held(commit=7)}, subscriptions=[subscribed("U")]),
        "c2": running({("T", "broker-a", 0): held(commit=40)}, subscriptions=[subscribed("T")]),
    }
    for broker in (a, b):
        broker.topics["U"] = [Queue(30)]
        broker.groups["G"] = Group(members, ("T",))
    a.offsets["G"]["U"] = {0: 7}
    return a, b


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_a_topic_that_only_a_member_names_has_its_rows(version: int) -> None:
    progress = _fetch(Cluster(*_torn_group(version)))
    assert [str(row.mq) for row in progress.rows if row.mq.topic == "U"] == ["U@broker-a:0", "U@broker-b:0"]
    first, second = (row for row in progress.rows if row.mq.topic == "U")
    assert (first.consumer_offset, first.max_offset, first.lag, first.client_ids) == (7, 30, 23, ("c1",))
    assert (second.consumer_offset, second.lag) == (None, None)
    assert second.reasons["lag"] is Unknown.NEVER_COMMITTED
    assert [row.mq for row in progress.rows if row.mq.topic == "T"] == [A0, A1, B0, B1]
    assert progress.failures == ()
    _assert_explained(progress)


def test_a_topic_that_a_member_holds_and_no_longer_names_has_its_rows() -> None:
    a, b = _torn_group()
    member = running({("U", "broker-a", 0): held(commit=7)}, subscriptions=[subscribed("T")])
    a.groups["G"] = b.groups["G"] = Group({"c1": member}, ("T",))
    assert {row.mq.topic for row in _fetch(Cluster(a, b)).rows} == {"T", "U"}


def test_patterns_of_topics_pick_what_only_members_name() -> None:
    progress = _fetch(Cluster(*_torn_group()), topics=["U*"])
    assert [str(row.mq) for row in progress.rows] == ["U@broker-a:0", "U@broker-b:0"]
    assert progress.rows[0].lag == 23
    assert progress.asked_topics == ("U*",)


def test_a_topic_that_was_asked_for_is_not_widened_by_what_members_name() -> None:
    assert {row.mq.topic for row in _fetch(Cluster(*_torn_group()), topics=["T"]).rows} == {"T"}


def test_a_topic_that_only_members_name_and_that_does_not_exist_is_no_failure() -> None:
    a, b = _brokers()
    a.groups["G"] = b.groups["G"] = Group({"c1": running(subscriptions=[subscribed("gone")])}, ("T",))
    progress = _fetch(Cluster(a, b))
    assert ({row.mq.topic for row in progress.rows}, progress.failures) == ({"T"}, ())


def test_with_a_broker_down_its_queues_of_such_a_topic_are_rows_too() -> None:
    cluster = Cluster(*_torn_group())
    cluster.stop("broker-b")
    last = _fetch(cluster).rows[-1]
    assert str(last.mq) == "U@broker-b:0"
    assert last.reasons["lag"] is Unknown.BROKER_UNREACHABLE


def test_a_deleted_topic_that_left_its_offsets_behind_is_no_failure() -> None:
    a, b = _brokers()
    a.offsets["G"]["gone"] = {0: 5}
    progress = _fetch(Cluster(a, b))
    assert progress.failures == ()
    assert {row.mq.topic for row in progress.rows} == {"T"}


# Zero or none


def _with_zero_and_none(version: int) -> Cluster:
    """Return a cluster where G stored 0 in queue 0 of broker-a, and nothing in its queue 1."""
    a, b = _brokers(version)
    a.offsets["G"]["T"] = {0: 0}
    return Cluster(a, b)


def test_on_5_x_each_zero_is_settled_by_asking_for_its_one_offset() -> None:
    cluster = _with_zero_and_none(V5_4_0)
    rows = _rows(_fetch(cluster))
    assert (rows[A0].consumer_offset, rows[A0].lag) == (0, 100)
    assert (rows[A1].consumer_offset, rows[A1].lag) == (None, None)
    assert rows[A1].reasons["consumerOffset"] is rows[A1].reasons["lag"] is Unknown.NEVER_COMMITTED
    server = cluster.servers["broker-a"]
    asked = [request.ext_fields for request in server.asked if request.code == Q.QUERY_CONSUMER_OFFSET]
    # The others are queues that no consumer can read, if there are any.
    assert sorted(fields["queueId"] for fields in asked if int(fields["queueId"]) < 2) == ["0", "1"]
    assert {fields["setZeroIfNotFound"] for fields in asked} == {"false"}


def test_on_4_9_zeros_are_settled_by_the_table_of_all_offsets() -> None:
    cluster = _with_zero_and_none(V4_9_7)
    rows = _rows(_fetch(cluster))
    assert (rows[A0].consumer_offset, rows[A1].consumer_offset) == (0, None)
    assert rows[A1].reasons["consumerOffset"] is Unknown.NEVER_COMMITTED
    codes = cluster.servers["broker-a"].codes()
    # Once for zeros, once for queues that no consumer can read.
    assert codes.count(Q.GET_ALL_CONSUMER_OFFSET) == 2
    assert Q.QUERY_CONSUMER_OFFSET not in codes


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_a_broker_where_every_offset_is_sure_is_not_asked_again(version: int) -> None:
    cluster = _with_zero_and_none(version)
    _fetch(cluster)
    server = cluster.servers["broker-b"]
    asked = [request.ext_fields for request in server.asked if request.code == Q.QUERY_CONSUMER_OFFSET]
    assert [fields for fields in asked if int(fields["queueId"]) < 2] == []
    # For queues that no consumer can read.
    assert server.codes().count(Q.GET_ALL_CONSUMER_OFFSET) == (1 if version == V4_9_7 else 0)


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_a_negative_stored_offset_is_none(version: int) -> None:
    a, b = _brokers(version)
    a.offsets["G"]["T"] = {0: -1, 1: -7}
    progress = _fetch(Cluster(a, b))
    for mq in (A0, A1):
        row = _rows(progress)[mq]
        assert (row.consumer_offset, row.lag) == (None, None)
        assert row.reasons["consumerOffset"] is Unknown.NEVER_COMMITTED


@pytest.mark.parametrize(("version", "code"), [(V4_9_7, 43), (V5_4_0, 14)])
def test_a_zero_that_can_not_be_settled_is_unknown_and_a_failure(version: int, code: int) -> None:
    cluster = _with_zero_and_none(version)
    cluster.servers["broker-a"].table[code] = refused(R.SYSTEM_ERROR, "broken")
    progress = _fetch(cluster)
    assert {failure.broker_name for failure in progress.failures} == {"broker-a"}
    assert "stored offsets" in [failure.what for failure in progress.failures]
    for mq in (A0, A1):
        assert _rows(progress)[mq].consumer_offset is None
        assert _rows(progress)[mq].reasons["consumerOffset"] is Unknown.NOT_REPORTED


def test_an_old_broker_does_not_tell_how_far_was_pulled() -> None:
    progress = _fetch(Cluster(*_brokers(V4_9_7)))
    assert {row.pull_offset for row in progress.rows} == {None}
    assert {row.reasons["pullOffset"] for row in progress.rows} == {Unknown.BROKER_TOO_OLD}
    assert {row.reasons["inflight"] for row in progress.rows} == {Unknown.BROKER_TOO_OLD}
    _assert_explained(progress)


# Members


def test_a_silent_client_is_a_failure_within_the_deadline() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running({A0: held(commit=40)}), "mute": SILENCE})
    cluster = Cluster(a, b)
    progress = _fetch(cluster, timeout_s=9)
    assert cluster.clock.monotonic_s() <= 4
    rows = _rows(progress)
    assert rows[A0].client_ids == ("c1",)
    assert rows[A1].reasons["clientId"] is Unknown.CLIENT_SILENT
    (failure,) = progress.failures
    assert (failure.broker_name, failure.what, failure.error.name) == (None, "running info of mute", "TIMED_OUT")
    assert (rows[A0].lag, rows[B0].lag) == (60, 40)


def test_a_member_that_left_meanwhile_is_a_failure_like_a_silent_one() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": refused(R.SYSTEM_ERROR, "The Consumer <G> <c1> not online")})
    progress = _fetch(Cluster(a, b))
    assert _rows(progress)[A0].reasons["clientId"] is Unknown.CLIENT_SILENT
    assert [failure.what for failure in progress.failures] == ["running info of c1"]


def test_hundreds_of_silent_clients_do_not_keep_the_rest_from_being_read() -> None:
    a, b = _brokers()
    a.offsets["G"]["T"] = {0: 0}
    a.groups["G"] = Group({f"mute{number}": SILENCE for number in range(300)})
    cluster = Cluster(a, b)
    table = cluster.servers["broker-a"].table
    for code in (Q.QUERY_CONSUMER_OFFSET, Q.GET_BROKER_RUNTIME_INFO):
        table[code] = Late(0.1, table[code])
    progress = _fetch(cluster, timeout_s=9)
    assert cluster.clock.monotonic_s() <= 9.5
    assert _rows(progress)[A0].consumer_offset == 0
    assert _rows(progress)[A0].retention_left_ms is not None
    assert {failure.broker_name for failure in progress.failures} == {None}


def test_a_queue_that_two_clients_hold_has_several_owners_and_a_risk_of_all_that_was_pulled() -> None:
    a, b = _brokers()
    a.pulls["G", "T", 0] = 51
    a.groups["G"] = Group(
        {
            "c1": running({A0: held(5, 40, 44, 40), A1: held(commit=50)}),
            # It took the queue over with its own copy of the messages; either may be done with what the other holds.
            "c2": running({A0: held(6, 45, 50, 45)}),
        }
    )
    row = _rows(_fetch(Cluster(a, b)))[A0]
    assert row.client_ids == ("c1", "c2")
    assert row.reasons["clientId"] is Unknown.SEVERAL_OWNERS
    assert (row.inflight, row.duplicate_risk) == (11, 11)


def test_a_dropped_queue_is_held_no_more() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running({A0: held(commit=40, dropped=True)}), "c2": running({A0: held(commit=40)})})
    assert _rows(_fetch(Cluster(a, b)))[A0].client_ids == ("c2",)


def test_a_popping_client_owns_all_queues_of_its_broker_and_its_messages_out_are_unknown() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running(pops={("T", "broker-a", -1): 7})}, consume_type="CONSUME_POP")
    progress = _fetch(Cluster(a, b))
    row = _rows(progress)[A1]
    assert row.client_ids == ("c1",)
    assert row.reasons["inflight"] is row.reasons["duplicateRisk"] is Unknown.POP
    assert row.lag == 50
    assert any("pop" in note for note in progress.notes)


@pytest.mark.parametrize(
    ("others", "is_known"),
    [({}, True), ({"c3": running({}, {("T", "broker-a", -1): 7})}, False), ({"c3": SILENCE}, False)],
    ids=["popped elsewhere", "popped here too", "a member that may pop is silent"],
)
def test_messages_in_flight_are_known_of_queues_that_are_only_pulled(others: dict[str, Reply], is_known: bool) -> None:
    a, b = _brokers()
    pops = running({}, {("T", "broker-b", -1): 7})
    a.groups["G"] = Group({"c1": running({A0: held(commit=40)}), "c2": pops, **others})
    rows = _rows(_fetch(Cluster(a, b)))
    assert (rows[A0].inflight is not None) == is_known
    assert rows[A0].reasons.get("inflight") is (None if is_known else Unknown.POP)
    assert rows[B0].reasons["inflight"] is Unknown.POP


def test_clustering_members_have_a_lag_although_another_one_broadcasts() -> None:
    a, b = _brokers()
    members = {"c1": running({A0: held(commit=40)}, messageModel="CLUSTERING")}
    members["c2"] = running(messageModel="BROADCASTING")
    a.groups["G"] = Group(members, message_model="BROADCASTING")
    assert _rows(_fetch(Cluster(a, b)))[A0].lag is not None


def test_a_broadcasting_groups_leftover_offsets_are_no_lag() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running()}, message_model="BROADCASTING")
    progress = _fetch(Cluster(a, b))
    assert progress.message_model == "BROADCASTING"
    assert {row.lag for row in progress.rows} == {None}
    assert {row.reasons["lag"] for row in progress.rows} == {Unknown.BROADCASTING}
    assert any("broadcasting" in note for note in progress.notes)


# Retry topics


def test_a_retry_queue_that_never_held_a_message_is_not_shown() -> None:
    a, b = _brokers()
    retry = "%RETRY%G"
    for broker in (a, b):
        broker.topics[retry] = [Queue()]
        broker.groups["G"] = Group({"c1": running()}, ("T", retry))
    b.topics[retry][0].max_offset = 3
    progress = _fetch(Cluster(a, b))
    assert [str(row.mq) for row in progress.rows if row.mq.topic == retry] == ["%RETRY%G@broker-b:0"]


@pytest.mark.parametrize("topic", ["%RETRY%G", "%RETRY%G_T", "%RETRY%G+T"])
@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
def test_messages_in_a_retry_topic_that_nobody_ever_read_are_the_groups(version: int, topic: str) -> None:
    a, b = _brokers(version)
    a.topics[topic] = [Queue(3)]
    progress = _fetch(Cluster(a, b))
    (row,) = [row for row in progress.rows if row.mq.topic == topic]
    assert (row.lag, row.reasons["lag"]) == (None, Unknown.NEVER_COMMITTED)
    assert [row.mq for row in progress.rows if row.mq.topic == "T"] == [A0, A1, B0, B1]
    assert [each.mq for each in _fetch(Cluster(a, b), topics=["%RETRY%*"]).rows] == [row.mq]
    a.configured.add("G_T")  # whose own retry topic has the name
    assert any(row.mq.topic == topic for row in _fetch(Cluster(a, b)).rows) is (topic != "%RETRY%G_T")


def test_retry_topics_are_named_where_name_servers_do_not_tell_topics() -> None:
    cluster = Cluster(*_brokers())
    cluster.name_server.table[Q.GET_ALL_TOPIC_LIST_FROM_NAMESERVER] = refused(R.SYSTEM_ERROR, "boom")
    progress = _fetch(cluster)
    assert [failure.what for failure in progress.failures] == ["names of topics"]
    assert [row.mq for row in progress.rows] == [A0, A1, B0, B1]


def test_a_retry_topic_that_was_never_made_is_no_failure() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running()}, ("T", "%RETRY%G"))
    progress = _fetch(Cluster(a, b))
    assert progress.failures == ()
    assert {row.mq.topic for row in progress.rows} == {"T"}


# Offsets out of range


_CUT = {
    # Read and write queues, the offsets stored beyond them, and the unread messages there.
    "both shrunk": (1, 1, {1: 90, 2: 7, 3: 100}, {1: 10, 2: 3}),
    "only read queues shrunk": (1, 4, {1: 90, 2: 7}, {1: 10, 2: 3, 3: 100}),
    "only write queues shrunk": (4, 1, {1: 90, 2: 7, 3: 100}, {}),
    "all read before": (1, 1, {1: 100, 2: 10}, {}),
    "created anew, smaller": (1, 1, {4: 7}, {}),
}


@pytest.mark.parametrize("version", [V4_9_7, V5_4_0])
@pytest.mark.parametrize("case", _CUT)
def test_queues_that_no_consumer_can_read_are_no_rows_and_are_counted_beside_them(case: str, version: int) -> None:
    read, write, offsets, unread = _CUT[case]
    a, b = _brokers(version)
    queues = [Queue(100), Queue(100), Queue(10), Queue(100)]
    a.topics["T"] = queues[: max(read, write)]
    a.topic_configs["T"] = {"readQueueNums": read, "writeQueueNums": write}
    a.cut_queues = {("T", number): queue for number, queue in enumerate(queues)}
    a.offsets["G"]["T"] = {0: 40, **offsets}
    progress = _fetch(Cluster(a, b))
    readable = {mq.queue_id for mq in _rows(progress) if mq.broker_name == "broker-a"}
    assert readable == set(range(read))
    assert {mq.queue_id: count for mq, count in progress.unreadable.items()} == unread
    cut = {each.mq.queue_id: each.consumer_offset for each in progress.cut}
    assert cut == {number: offset for number, offset in offsets.items() if number >= read}
    assert progress.failures == ()


def test_queues_that_no_consumer_can_read_are_unknown_without_the_table_of_offsets() -> None:
    a, b = _brokers()
    a.cut_queues, a.offsets["G"]["T"][5] = {("T", 5): Queue(9)}, 3
    cluster = Cluster(a, b)
    table = cluster.servers["broker-a"].table
    table[Q.GET_ALL_CONSUMER_OFFSET] = refused(R.SYSTEM_ERROR, "broken")
    assert [each.what for each in _fetch(cluster).failures] == ["all stored offsets"]
    # An account that may not read it never may.
    table[Q.GET_ALL_CONSUMER_OFFSET] = refused(R.NO_PERMISSION, "no")
    progress = _fetch(cluster)
    assert (progress.failures, len(progress.notes)) == ((), 1)
    cluster = Cluster(a, b)
    cluster.servers["broker-a"].table[Q.GET_MAX_OFFSET] = refused(R.SYSTEM_ERROR, "broken")
    progress = _fetch(cluster)
    assert [(each.consumer_offset, each.max_offset) for each in progress.cut] == [(3, None)]
    assert [each.what for each in progress.failures] == ["messages of T@broker-a:5"]


def test_an_offset_below_min_is_lost_and_one_beyond_max_is_unknown() -> None:
    a, b = _brokers()
    a.topics["T"] = [Queue(100, 55, oldest_age_ms=2 * HOUR_MS), Queue(30)]
    progress = _fetch(Cluster(a, b))
    lost, beyond = _rows(progress)[A0], _rows(progress)[A1]
    assert (lost.lag, lost.lost, lost.time_lag_ms) == (45, 15, 2 * HOUR_MS - 0)
    assert beyond.lag is None
    assert beyond.reasons["lag"] is Unknown.OFFSET_BEYOND_MAX
    _assert_explained(progress)


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        (0, Unknown.NOTHING_CONSUMED),
        (40, Unknown.MESSAGE_DELETED),
        (55, Unknown.MESSAGE_DELETED),
        (60, Unknown.NOT_REPORTED),
        (900, Unknown.OFFSET_BEYOND_MAX),
        (-1, Unknown.NEVER_COMMITTED),
    ],
)
def test_why_the_time_of_the_last_consumed_message_is_missing(offset: int, reason: Unknown) -> None:
    a, b = _brokers()
    a.topics["T"] = [Queue(100, 55)]
    a.offsets["G"] = {"T": {0: offset}}
    a.tells_last_times = False
    row = _rows(_fetch(Cluster(a, b)))[A0]
    assert (row.last_timestamp_ms, row.reasons["lastTimestamp"]) == (None, reason)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [(refused(R.NO_PERMISSION, "no"), Unknown.NOT_AUTHORISED), (refused(R.SYSTEM_ERROR, "boom"), Unknown.NOT_REPORTED)],
)
@pytest.mark.parametrize(
    ("code", "keys"),
    [
        (Q.GET_TOPIC_STATS_INFO, ("minOffset", "lag", "lost")),
        (Q.QUERY_CONSUME_TIME_SPAN, ("timeLagMs", "retentionLeftMs")),
        (Q.QUERY_CONSUMER_OFFSET, ("consumerOffset", "lag", "inflight", "lastTimestamp")),
    ],
)
def test_what_a_broker_refuses_to_tell_has_that_reason(
    code: int, keys: tuple[str, ...], reply: Reply, reason: Unknown
) -> None:
    a, b = _brokers()
    a.offsets["G"]["T"][0] = 0
    cluster = Cluster(a, b)
    cluster.servers["broker-a"].table[code] = reply
    reasons = _rows(_fetch(cluster))[A0].reasons
    assert {key: reasons[key] for key in keys} == dict.fromkeys(keys, reason)


def test_filters_and_missing_permissions_are_noted() -> None:
    a, b = _brokers()
    a.groups["G"] = Group({"c1": running(subscriptions=[subscribed("T", "x")])})
    b.topic_configs["T"] = {"perm": 2}
    notes = _fetch(Cluster(a, b)).notes
    assert any("filter" in note and "T (x)" in note for note in notes)
    assert any("ermission" in note and "broker-b" in note and "broker-a" not in note for note in notes)


# Hostile answers

HOSTILE = [
    *(b"", b"null", b"[]", b"7", b'"text"', b"{", b"\xff\xfe", b'{"offsetTable":7}', b'{"offsetTable":[1,2]}'),
    *(b'{"offsetTable":{"a":{}}}', b'{"offsetTable":{{"brokerName":1,"queueId":"x","topic":[]}:{}}}'),
    *(b'{"connectionSet":7}', b'{"connectionSet":[7]}', b'{"subscriptionTable":[]}', b'{"mqTable":"x"}'),
    *(b'{"consumeTimeSpanSet":[{}]}', b'{"table":7}', b'{"subscriptionGroupTable":{"g":7}}', b"[" * 5_000),
    b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"brokerOffset":1.5,"consumerOffset":true}}}',
    b'{"consumeTps":1e999,"offsetTable":{}}',
    b'{"$ref":"$.a.b"}',
]


@pytest.mark.parametrize(
    "code",
    [
        Q.GET_CONSUME_STATS,
        Q.GET_CONSUMER_CONNECTION_LIST,
        Q.GET_TOPIC_STATS_INFO,
        Q.QUERY_CONSUME_TIME_SPAN,
        Q.GET_CONSUMER_RUNNING_INFO,
        Q.GET_BROKER_RUNTIME_INFO,
        Q.GET_BROKER_CONFIG,
        Q.QUERY_CONSUMER_OFFSET,
    ],
)
def test_a_hostile_answer_of_one_broker_never_breaks_the_whole(code: Q) -> None:
    a, b = _brokers()
    b.offsets["G"]["T"][0] = 0
    b.groups["G"] = Group({"c1": running({A0: held(commit=1)})})
    for body in HOSTILE:
        cluster = Cluster(a, b)
        cluster.servers["broker-b"].table[code] = ok(body, offset="x")
        progress = _fetch(cluster)
        assert _rows(progress)[A0].lag == 60
        for failure in progress.failures:
            assert isinstance(failure.error, RemoteProtocolError)
        _assert_explained(progress)


@pytest.mark.parametrize("code", [Q.GET_BROKER_CLUSTER_INFO, Q.GET_ROUTEINFO_BY_TOPIC])
def test_a_hostile_answer_of_the_name_server_is_an_error_or_a_failure(code: Q) -> None:
    for body in [*HOSTILE, b'{"brokerAddrTable":{"a":7}}', b'{"brokerAddrTable":{"a":{"brokerName":null}}}']:
        cluster = Cluster(*_brokers())
        cluster.name_server.table[code] = ok(body)
        if code == Q.GET_BROKER_CLUSTER_INFO:
            with pytest.raises(RemoteProtocolError):
                _fetch(cluster)
        else:
            assert [failure.what for failure in _fetch(cluster).failures] == ["route of T"]


def test_offsets_larger_than_a_java_long_are_refused() -> None:
    cluster = Cluster(*_brokers())
    row = json.dumps({"brokerOffset": 10**300, "consumerOffset": 0, "lastTimestamp": 0})
    body = f'{{"consumeTps":0.0,"offsetTable":{{{{"brokerName":"broker-a","queueId":0,"topic":"T"}}:{row}}}}}'
    cluster.servers["broker-a"].table[Q.GET_CONSUME_STATS] = ok(body.encode())
    (failure,) = _fetch(cluster).failures
    assert isinstance(failure.error, RemoteProtocolError)
