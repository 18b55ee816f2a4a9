from __future__ import annotations

import pytest

from rmqctl.admin.trace import Trace, fetch_trace
from rmqctl.errors import NotFoundError
from rmqctl.protocol.codes import RequestCode as Q
from tests.protocol.test_trace import AFTER, BEFORE, PUB
from tests.scripted import ok, passing, run

from .cluster import BrokerState, Cluster
from .message_store import MessageStore, message_cluster

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
