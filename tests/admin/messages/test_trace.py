from __future__ import annotations

import pytest

from rmqctl.admin.messages.trace import Trace, fetch_trace
from rmqctl.errors import NotFoundError
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from tests.admin.cluster import BrokerState, Cluster
from tests.admin.message_store import MessageStore, message_cluster
from tests.protocol.test_trace import AFTER, BEFORE, PUB
from tests.scripted_peer import ok, passing, refused, run

TOPIC = "RMQ_SYS_TRACE_TOPIC"


def _trace(cluster: Cluster, topic: str = TOPIC, *, msg_id: str | None = None, key: str | None = None) -> Trace:
    async def scenario() -> Trace:
        async with cluster.client() as client:
            return await fetch_trace(client, topic, msg_id=msg_id, key=key)

    return run(passing(cluster.clock, scenario()))


ID = "7F00000100A418B4AAC2692623890003"


def _body(*records: bytes) -> bytes:
    return b"".join(records).replace(b"FD02", ID.encode())


def test_records_of_both_brokers_are_put_together() -> None:
    a, b = MessageStore(BrokerState("broker-a")), MessageStore(BrokerState("broker-b"))
    a.put(TOPIC, 0, body=_body(PUB, BEFORE), keys=f"k0 {ID}")
    b.put(TOPIC, 1, body=_body(AFTER), keys=f"k1 {ID}")
    trace = _trace(message_cluster(a, b), msg_id=ID)
    assert [(step.event, step.result, step.cost_ms) for step in trace.steps] == [
        ("PUBLISHED", "SUCCESS", 83),
        ("DELIVERED", "FAILED", 7),
    ]
    assert trace.steps[0].client_host == "192.0.2.1:50001"
    assert trace.failures == ()


def test_records_of_other_messages_in_one_body_are_left_out() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put(TOPIC, 0, body=_body(PUB) + PUB.replace(b"k0", b"k9"), keys=f"k0 k9 FD02 {ID}")
    assert len(_trace(message_cluster(store), msg_id=ID).steps) == 1
    by_key = _trace(message_cluster(store), key="k9")
    assert [(step.msg_id, step.keys) for step in by_key.steps] == [("FD02", "k9")]


def test_what_can_not_be_read_is_counted() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put(TOPIC, 0, body=_body(PUB, b"Pub\x01x\x02"), keys=ID)
    store.put(TOPIC, 0, body=b"no zlib", keys=ID, sys_flag=0x301)
    trace = _trace(message_cluster(store), msg_id=ID)
    assert (len(trace.steps), trace.unreadable_count) == (1, 2)


def test_a_missing_topic_and_a_missing_trace_say_how_to_get_one() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put("T", 0)
    with pytest.raises(NotFoundError, match="The trace topic RMQ_SYS_TRACE_TOPIC does not exist") as caught:
        _trace(message_cluster(store), msg_id=ID)
    assert "traceTopicEnable=true" in (caught.value.hint or "")
    store.put(TOPIC, 0, body=b"")
    with pytest.raises(NotFoundError, match="A trace in") as caught:
        _trace(message_cluster(store), msg_id=ID)
    assert "enableMsgTrace=true" in (caught.value.hint or "")


def test_a_route_without_brokers_is_not_found() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put(TOPIC, 0)
    cluster = message_cluster(store)
    cluster.name_server.table[Q.GET_ROUTEINFO_BY_TOPIC] = ok(b'{"queueDatas":[],"brokerDatas":[]}')
    with pytest.raises(NotFoundError, match="A trace in"):
        _trace(cluster, key="k")


PUB_MS = 1_795_256_495_733  # in PUB


def _aged(cluster: Cluster, oldest_at_ms: int, *, name: str = "broker-b") -> Cluster:
    """Let the oldest record of a broker be of a time."""
    cluster.servers[name].table[Q.GET_EARLIEST_MSG_STORETIME] = ok(timestamp=str(oldest_at_ms))
    return cluster


def _two(*, deleted_count: int) -> Cluster:
    """Return two brokers with a record each, before the second of which others were deleted."""
    a, b = MessageStore(BrokerState("broker-a")), MessageStore(BrokerState("broker-b"))
    a.put(TOPIC, 0, body=_body(PUB), keys=f"k0 {ID}")
    for _ in range(deleted_count):
        b.put(TOPIC, 0, body=b"")
    b.put(TOPIC, 0, body=_body(BEFORE), keys=ID)
    b.delete_before(TOPIC, 0, deleted_count)
    return message_cluster(a, b)


def test_a_broker_that_has_deleted_records_since_the_message_was_born_is_named() -> None:
    trace = _trace(_aged(_two(deleted_count=3), PUB_MS + 60_000), msg_id=ID)
    assert [step.event for step in trace.steps] == ["PUBLISHED", "DELIVERED"]
    (failure,) = trace.failures
    assert (failure.broker_name, failure.what, failure.error.name) == ("broker-b", "older trace records", "DELETED")
    assert failure.error.sentence == (
        "RMQ_SYS_TRACE_TOPIC starts at 2026-11-21T10:22:35.733Z: older records were deleted. "
        "The trace may be incomplete."
    )


@pytest.mark.parametrize(("deleted_count", "later_ms"), [(0, 60_000), (3, 0), (3, -60_000)])
def test_nothing_is_missing_where_nothing_was_deleted_since(deleted_count: int, later_ms: int) -> None:
    assert _trace(_aged(_two(deleted_count=deleted_count), PUB_MS + later_ms), msg_id=ID).failures == ()


def test_a_trace_whose_records_are_all_deleted_is_not_called_missing() -> None:
    store = MessageStore(BrokerState("broker-a"))
    store.put(TOPIC, 0, body=_body(PUB), keys=ID)
    store.delete_before(TOPIC, 0, 1)
    cluster = message_cluster(store)
    cluster.servers["broker-a"].table[Q.QUERY_MESSAGE] = refused(R.QUERY_NOT_FOUND, "can not find message")
    trace = _trace(cluster, msg_id=ID)
    assert trace.steps == ()
    assert [failure.error.sentence for failure in trace.failures] == [
        "RMQ_SYS_TRACE_TOPIC is empty there: older records were deleted. The trace may be incomplete."
    ]


def test_a_broker_that_can_not_say_how_old_its_records_are_is_named() -> None:
    cluster = _two(deleted_count=3)
    cluster.servers["broker-b"].table[Q.GET_TOPIC_STATS_INFO] = refused(R.SYSTEM_ERROR, "broken")
    (failure,) = _trace(cluster, msg_id=ID).failures
    assert (failure.broker_name, failure.what) == ("broker-b", "age of trace records")


def test_records_that_are_gone_before_the_min_offset_follows_are_deleted() -> None:
    trace = _trace(_aged(_two(deleted_count=0), -1), msg_id=ID)
    assert [(failure.broker_name, failure.error.name) for failure in trace.failures] == [("broker-b", "DELETED")]
