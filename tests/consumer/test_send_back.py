"""Mission 7.11: back to the broker that stored it within 5 s, else as a new message within 3 s, else an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from ipaddress import ip_address
from typing import Any

import pytest

from rmqctl.client.core import Client
from rmqctl.consumer.send_back import SendBackRequests
from rmqctl.errors import RmqctlError
from rmqctl.producer.producer import Producer
from rmqctl.protocol import headers
from rmqctl.protocol.codes import RequestCode as Q
from rmqctl.protocol.codes import ResponseCode as R
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.protocol.properties import decode_properties, encode_properties
from rmqctl.protocol.record import encode_record
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.topics.table import Topic
from tests.admin.cluster import Cluster, Queue
from tests.client.send_brokers import TOPIC, sending_cluster, sent
from tests.scripted_peer import DROP, SILENCE, Late, ok, passing, refused, run

GROUP, RETRY = "G", "%RETRY%G"
HOST = ("10.0.0.1", 10911)


def _message(
    topic: str = TOPIC, *, times: int = 0, body: bytes = b"hi", host: tuple[str, int] = HOST, **properties: str
) -> StoredMessage:
    address = (ip_address(host[0]).packed, host[1])
    record = encode_record(
        topic=topic.encode(), queue_id=0, queue_offset=7, commit_log_offset=4711, flag=9, sys_flag=0, born_at_ms=1,
        born_host=address, stored_at_ms=2, store_host=address, reconsume_times=times, prepared_transaction_offset=0,
        body=body, properties=encode_properties({"UNIQ_KEY": "KEY", **properties}).encode(),
    )  # fmt: skip
    return StoredMessage.decode(record)


def _cluster() -> Cluster:
    """Return two brokers of which a is at HOST, and the group's retry topic on both."""
    cluster = sending_cluster("broker-a", "broker-b")
    for broker in cluster.brokers.values():
        broker.topics[RETRY] = [Queue()]
    cluster.network.servers["10.0.0.1:10911"] = cluster.network.servers.pop("a:1")
    cluster.addresses["broker-a"] = "10.0.0.1:10911"
    return cluster


def _run(cluster: Cluster, work: Callable[[SendBackRequests], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    async def go() -> Any:
        async with cluster.client(timeout_s=9, open_ended=True) as client:
            return await passing(
                cluster.clock,
                work(SendBackRequests(client, GROUP, Producer(client, "CLIENT_INNER_PRODUCER"), **options)),
            )

    return run(go())


def _back(cluster: Cluster, message: StoredMessage, level: int = 0, **options: Any) -> int:
    """Send one message back; return how often that took a new message."""

    async def work(send_back: SendBackRequests) -> int:
        await send_back(message, level, **options)
        return send_back.fallback_count

    count: int = _run(cluster, work)
    return count


def _failing(cluster: Cluster, message: StoredMessage) -> RmqctlError:
    async def work(send_back: SendBackRequests) -> RmqctlError:
        with pytest.raises(RmqctlError) as caught:
            await send_back(message, 0)
        assert send_back.fallback_count == 0
        return caught.value

    error: RmqctlError = _run(cluster, work)
    return error


def _asked(cluster: Cluster, name: str) -> list[dict[str, str]]:
    return [request.ext_fields for request in sent(cluster, name, Q.CONSUMER_SEND_MSG_BACK)]


def _new_messages(cluster: Cluster) -> list[dict[str, str]]:
    return [request.ext_fields for name in cluster.servers for request in sent(cluster, name)]


# To the broker that stored it


@pytest.mark.parametrize("level", [0, 3, -1])
def test_7_11_a_message_goes_back_to_the_broker_that_stored_it(level: int) -> None:
    cluster = _cluster()
    assert _back(cluster, _message(), level) == 0
    assert _asked(cluster, "broker-a") == [
        {
            "offset": "4711", "group": GROUP, "delayLevel": str(level), "originMsgId": "KEY", "originTopic": TOPIC,
            "unitMode": "false", "maxReconsumeTimes": "16", "bname": "broker-a",
        }
    ]  # fmt: skip
    assert (_asked(cluster, "broker-b"), _new_messages(cluster)) == ([], [])


def test_a_retry_names_the_topic_that_it_was_first_sent_to() -> None:
    cluster = _cluster()
    _back(cluster, _message(RETRY, times=1, RETRY_TOPIC="first"))
    assert _asked(cluster, "broker-a")[0]["originTopic"] == "first"


def test_the_clients_own_maximum_is_sent_along() -> None:
    cluster = _cluster()
    _run(cluster, lambda send_back: send_back(_message(), 0), max_reconsume_times=3)
    assert _asked(cluster, "broker-a")[0]["maxReconsumeTimes"] == "3"


def test_a_broker_that_has_another_address_by_now_is_found_by_its_name() -> None:
    cluster = _cluster()
    moved = _message(host=("10.9.9.9", 10911))
    assert _back(cluster, moved, broker_name="broker-b") == 0
    assert [fields["bname"] for fields in _asked(cluster, "broker-b")] == ["broker-b"]


def test_a_broker_out_of_the_route_is_asked_where_it_was() -> None:
    cluster = _cluster()
    del cluster.brokers["broker-a"].topics[TOPIC]
    assert _back(cluster, _message()) == 0
    assert "bname" not in _asked(cluster, "broker-a")[0]


def test_without_any_route_it_is_asked_where_it_was_as_well() -> None:
    cluster = _cluster()
    cluster.network.refusing.add("ns:1")
    assert _back(cluster, _message()) == 0
    assert len(_asked(cluster, "broker-a")) == 1


# As a new message


@pytest.mark.parametrize(
    "reply", [refused(R.SYSTEM_ERROR, "look message by offset failed, 4711"), refused(R.NO_PERMISSION), DROP, SILENCE]
)
def test_7_11_what_the_broker_does_not_take_becomes_a_new_message(reply: Any) -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.CONSUMER_SEND_MSG_BACK] = reply
    assert _back(cluster, _message(times=2, KEYS="k", p="v", DELAY="4", TRAN_MSG="true")) == 1
    (fields,) = _new_messages(cluster)
    assert (fields["a"], fields["b"], fields["h"]) == ("CLIENT_INNER_PRODUCER", RETRY, "9")
    assert (fields["j"], fields["l"]) == ("3", "16")
    assert decode_properties(fields["i"]) == {
        "UNIQ_KEY": "KEY", "KEYS": "k", "p": "v", "WAIT": "true", "RETRY_TOPIC": TOPIC, "RECONSUME_TIME": "3",
        "MAX_RECONSUME_TIMES": "16", "DELAY": "5", "ORIGIN_MESSAGE_ID": _message().offset_id,
    }  # fmt: skip
    # Not asked twice: a broker whose answer got lost has stored it.
    assert len(_asked(cluster, "broker-a")) == 1


def test_7_11_the_broker_has_five_seconds() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.CONSUMER_SEND_MSG_BACK] = Late(4.5, ok())
    assert _back(cluster, _message()) == 0
    cluster.servers["broker-a"].table[Q.CONSUMER_SEND_MSG_BACK] = Late(5.5, ok())
    assert _back(cluster, _message()) == 1


def test_7_11_the_new_message_has_three_seconds_and_goes_to_any_broker() -> None:
    cluster = _cluster()
    cluster.stop("broker-a")
    cluster.network.refusing.add("10.0.0.1:10911")
    assert _back(cluster, _message()) == 1
    assert len(sent(cluster, "broker-b")) == 1
    cluster.servers["broker-b"].table[Q.SEND_MESSAGE_V2] = SILENCE
    assert "no answer within 3.0 s" in _failing(cluster, _message()).sentence


def test_the_first_id_of_a_message_is_kept() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.CONSUMER_SEND_MSG_BACK] = DROP
    _back(cluster, _message(RETRY, times=1, RETRY_TOPIC="first", ORIGIN_MESSAGE_ID="FIRST", RECONSUME_TIME="1"))
    properties = decode_properties(_new_messages(cluster)[0]["i"])
    assert (properties["ORIGIN_MESSAGE_ID"], properties["RETRY_TOPIC"]) == ("FIRST", "first")
    assert (properties["RECONSUME_TIME"], properties["DELAY"]) == ("2", "4")


def test_a_dead_letter_is_asked_for_by_a_limit_that_is_reached_and_without_a_delay() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.CONSUMER_SEND_MSG_BACK] = DROP
    _back(cluster, _message(times=1, DELAY="4"), -1)
    (fields,) = _new_messages(cluster)
    # 4.9 compares with >=, 5.x with >.
    assert (fields["j"], fields["l"]) == ("2", "1")
    assert "DELAY" not in decode_properties(fields["i"])


def test_a_message_of_an_inner_batch_goes_alone_since_its_place_is_that_of_all() -> None:
    cluster = _cluster()
    inner = StoredMessage.decode(_message().record, inner_index=1)
    assert _back(cluster, inner) == 1
    assert _asked(cluster, "broker-a") == []
    assert len(_new_messages(cluster)) == 1


def test_a_large_body_is_sent_whole() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.CONSUMER_SEND_MSG_BACK] = DROP
    _back(cluster, _message(body=b"x" * 5000))
    (request,) = [request for name in cluster.servers for request in sent(cluster, name)]
    assert request.ext_fields["f"] == str(0x301)


# Neither


def test_7_11_when_both_ways_fail_the_caller_is_told_why() -> None:
    cluster = _cluster()
    for server in cluster.servers.values():
        server.table[Q.CONSUMER_SEND_MSG_BACK] = refused(R.NO_PERMISSION, "the topic[%RETRY%G] is forbidden")
        server.table[Q.SEND_MESSAGE_V2] = refused(R.SERVICE_NOT_AVAILABLE, "disk full")
    error = _failing(cluster, _message())
    assert "disk full" in error.sentence
    assert ": 10.0.0.1:10911 refused the request: the topic[%RETRY%G] is forbidden." in error.sentence


def test_a_retry_topic_that_there_is_not() -> None:
    cluster = _cluster()
    cluster.servers["broker-a"].table[Q.CONSUMER_SEND_MSG_BACK] = DROP
    for broker in cluster.brokers.values():
        del broker.topics[RETRY]
    assert _failing(cluster, _message()).exit_code == 5


# The sandbox


@pytest.mark.parametrize("plays", ["5.4.0", "4.9.7"])
def test_the_sandbox_takes_messages_back_either_way(plays: str) -> None:
    async def go() -> list[tuple[str, int, str | None]]:
        async with Sandbox(plays=plays, queues=1) as sandbox, Client([sandbox.addr]) as client:
            broker = sandbox.brokers["broker-a"]
            broker.topics.put(Topic(TOPIC, 1, 1))
            producer = Producer(client, "CLIENT_INNER_PRODUCER")
            result = await producer.send(TOPIC, b"hi", tag="A")
            send_back = SendBackRequests(client, GROUP, producer)
            (message,) = await _stored(client, sandbox, result.mq.topic)
            await send_back(message, 0)
            await send_back(message, -1)
            assert send_back.fallback_count == 0
            sandbox.faults.answer(Q.CONSUMER_SEND_MSG_BACK, R.SYSTEM_ERROR, count=2)
            await send_back(message, 0)
            await send_back(message, -1)
            assert send_back.fallback_count == 2
            await sandbox.advance(11)
            found = [each for topic in (RETRY, f"%DLQ%{GROUP}") for each in await _stored(client, sandbox, topic)]
            assert {each.message_id for each in found} == {message.message_id}
            return [(each.topic, each.reconsume_times, each.properties.get("RETRY_TOPIC")) for each in found]

    assert asyncio.run(go()) == [(RETRY, 1, TOPIC)] * 2 + [(f"%DLQ%{GROUP}", 1, TOPIC)] * 2


async def _stored(client: Client, sandbox: Sandbox, topic: str) -> list[StoredMessage]:
    (broker,) = sandbox.brokers.values()
    answer = await client.ask(broker.address, headers.pull_without_trace(topic, 0, 0))
    return list(iter_messages(answer.body))
