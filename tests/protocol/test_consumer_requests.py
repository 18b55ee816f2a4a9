"""Requests of consumers, against those that Java's clients were recorded to send."""

from __future__ import annotations

import json

import pytest

from rmqctl.consumer.rules.subscriptions import make_subscription
from rmqctl.errors import RemoteProtocolError
from rmqctl.model.consumption import ConsumeFromWhere
from rmqctl.model.group import BROADCASTING, Subscription
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol import consumer_requests, group_bodies
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from tests.protocol.golden import EXCHANGES, Exchange, answer, answers, decode

MQ = MessageQueue("T", "broker-a", 3)


def recorded(code: int) -> list[Exchange]:
    return [exchange for exchange in EXCHANGES if exchange.request_code == code]


@pytest.mark.parametrize("exchange", recorded(34), ids=str)
def test_a_heartbeat_is_javas_byte_for_byte(exchange: Exchange) -> None:
    java = decode(exchange.request)
    said = json.loads(java.body)
    (consumer,) = said["consumerDataSet"]
    subscriptions = [
        make_subscription(item["topic"], item["subString"], item["expressionType"], version_ms=item["subVersion"])
        for item in consumer["subscriptionDataSet"]
    ]
    ours = consumer_requests.heartbeat(
        said["clientID"], consumer["groupName"], subscriptions,
        message_model=consumer["messageModel"], consume_from=ConsumeFromWhere(consumer["consumeFromWhere"]),
    )  # fmt: skip
    assert ours.code == RequestCode.HEART_BEAT
    # Java's sets have no order.
    consumer["subscriptionDataSet"].sort(key=lambda item: item["topic"])
    # Clients before 5.1.3 do not write these, and brokers before it do not read them.
    expected = {"heartbeatFingerprint": 0, "withoutSub": False, **said}
    assert json.loads(ours.body) == expected
    assert ours.body == json.dumps(expected, separators=(",", ":"), sort_keys=True).encode()


def test_recorded_heartbeats_have_filters_by_tag_as_well() -> None:
    bodies_ = [decode(exchange.request).body for exchange in recorded(34)]
    assert any(b'"codeSet":[2653,2654],"expressionType":"TAG","subString":"T1 || T2"' in body for body in bodies_)


def test_a_heartbeat_of_a_broadcasting_client() -> None:
    said = json.loads(
        consumer_requests.heartbeat(
            "c", "G", [Subscription("T")], message_model=BROADCASTING, consume_from=ConsumeFromWhere.TIMESTAMP,
            producer_groups=(),
        ).body
    )  # fmt: skip
    (consumer,) = said["consumerDataSet"]
    assert (consumer["messageModel"], consumer["consumeFromWhere"]) == ("BROADCASTING", "CONSUME_FROM_TIMESTAMP")
    assert said["producerDataSet"] == []


def test_a_client_leaves_a_group_and_its_own_producer_with_one_request() -> None:
    command = consumer_requests.unregister("c", "G")
    assert command.code == RequestCode.UNREGISTER_CLIENT
    assert command.ext_fields == {"clientID": "c", "consumerGroup": "G", "producerGroup": "CLIENT_INNER_PRODUCER"}


@pytest.mark.parametrize("exchange", recorded(38), ids=str)
def test_members_are_asked_for_as_by_java(exchange: Exchange) -> None:
    java = decode(exchange.request)
    ours = consumer_requests.get_consumer_ids(java.ext_fields["consumerGroup"])
    assert (ours.code, ours.ext_fields) == (java.code, java.ext_fields)


@pytest.mark.parametrize("exchange", answers(38), ids=str)
def test_recorded_members(exchange: Exchange) -> None:
    body = answer(exchange).body
    assert list(group_bodies.decode_consumer_ids(body)) == json.loads(body)["consumerIdList"]


def test_an_id_that_came_over_two_connections_stands_twice() -> None:
    assert group_bodies.decode_consumer_ids(b'{"consumerIdList":["b","a","b"]}') == ("b", "a", "b")
    assert group_bodies.decode_consumer_ids(b"{}") == ()
    with pytest.raises(RemoteProtocolError):
        group_bodies.decode_consumer_ids(b'{"consumerIdList":[1]}')


@pytest.mark.parametrize("exchange", recorded(11), ids=str)
def test_a_pull_is_javas(exchange: Exchange) -> None:
    java = decode(exchange.request)
    fields = dict(java.ext_fields)
    mq = MessageQueue(fields["topic"], fields.pop("bname"), int(fields["queueId"]))
    # Of 5.x; brokers' stores take no notice of it.
    fields.pop("maxMsgBytes", None)
    # Java writes what it has in memory, -1 for nothing; without the flag brokers do not look at it.
    committed = int(fields.pop("commitOffset"))
    ours = consumer_requests.pull(
        fields["consumerGroup"], mq, int(fields["queueOffset"]),
        Subscription(mq.topic, version_ms=int(fields["subVersion"]), expression_type=fields["expressionType"]),
        max_count=int(fields["maxMsgNums"]), committed=max(0, committed), hold_ms=int(fields["suspendTimeoutMillis"]),
    )  # fmt: skip
    assert ours.code == java.code
    assert ours.ext_fields == {**fields, "commitOffset": str(max(0, committed))}


def _pull(**options: int) -> Command:
    return consumer_requests.pull("G", MQ, 7, Subscription("T", version_ms=5), max_count=32, **options)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, "0"),
        ({"hold_ms": 15_000}, "2"),
        ({"hold_ms": 15_000, "committed": 1}, "3"),
        ({"committed": 9}, "1"),
        ({"hold_ms": 1, "committed": 0}, "2"),
    ],
)
def test_the_commit_flag_of_a_pull_is_set_only_above_offset_0_detail_7_5(options: dict[str, int], flags: str) -> None:
    fields = _pull(**options).ext_fields
    assert fields["sysFlag"] == flags
    assert fields["commitOffset"] == str(options.get("committed", 0))
    assert fields["suspendTimeoutMillis"] == str(options.get("hold_ms", 0))
