"""Requests that store messages, beside those that Java's producers and consumers sent."""

from __future__ import annotations

import zlib
from hashlib import sha256

import pytest

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage, SendStatus
from rmqctl.protocol import sends
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.properties import decode_properties
from rmqctl.protocol.record import iter_batch
from tests.protocol.golden import EXCHANGES, Exchange, answer, answers, decode

MQ = MessageQueue("T", "broker-a", 3)


def _recorded(code: int) -> list[Exchange]:
    return [exchange for exchange in EXCHANGES if exchange.request_code == code]


def _queue_of(fields: dict[str, str]) -> MessageQueue:
    return MessageQueue(fields["b"], fields["n"], int(fields["e"]))


@pytest.mark.parametrize("exchange", _recorded(RequestCode.SEND_MESSAGE_V2), ids=str)
def test_a_message_is_sent_as_javas_producer_sends_it(exchange: Exchange) -> None:
    java = decode(exchange.request)
    fields = java.ext_fields
    message = OutgoingMessage(java.body, decode_properties(fields["i"]), int(fields["h"]))
    ours = sends.send_message(fields["a"], _queue_of(fields), message, int(fields["g"]))
    # 4.9's client leaves the last separator out; brokers of both releases read either.
    assert ours.ext_fields == {**fields, "i": fields["i"].removesuffix("\x02") + "\x02"}
    assert (ours.code, ours.body) == (java.code, java.body)


@pytest.mark.parametrize("exchange", _recorded(RequestCode.SEND_BATCH_MESSAGE), ids=str)
def test_a_batch_is_sent_as_javas_producer_sends_it(exchange: Exchange) -> None:
    java = decode(exchange.request)
    fields = java.ext_fields
    parts = list(iter_batch(java.body))
    messages = [OutgoingMessage(part.body, decode_properties(part.properties), part.flag) for part in parts]
    ours = sends.send_batch(fields["a"], _queue_of(fields), map(sends.batch_part, messages), int(fields["g"]))
    # The key that 5.4's client gives the batch is left out: a 4.9 broker writes it over those of the messages.
    assert ours.ext_fields == {**fields, "i": "WAIT\x01true\x02"}
    assert ours.code == java.code
    if exchange.rocketmq == "5.4.0":
        assert ours.body == java.body
    read = list(iter_batch(ours.body))
    assert [(part.flag, part.body) for part in read] == [(part.flag, part.body) for part in parts]
    assert [decode_properties(part.properties) for part in read] == [message.properties for message in messages]


@pytest.mark.parametrize("exchange", _recorded(RequestCode.CONSUMER_SEND_MSG_BACK), ids=str)
def test_a_message_is_sent_back_as_javas_consumer_does_it(exchange: Exchange) -> None:
    fields = decode(exchange.request).ext_fields
    ours = sends.send_back(
        fields["group"], int(fields["offset"]), delay_level=int(fields["delayLevel"]),
        max_reconsume_times=int(fields["maxReconsumeTimes"]), origin_message_id=fields["originMsgId"],
        origin_topic=fields["originTopic"], broker_name=fields["bname"],
    )  # fmt: skip
    assert (ours.code, ours.ext_fields, ours.body) == (RequestCode.CONSUMER_SEND_MSG_BACK, fields, b"")


def test_a_broker_whose_name_is_not_known_is_not_named() -> None:
    ours = sends.send_back("G", 7, delay_level=-1, max_reconsume_times=16, origin_message_id="X", origin_topic="T",
                           broker_name=None)  # fmt: skip
    assert "bname" not in ours.ext_fields
    assert ours.ext_fields["delayLevel"] == "-1"


# Answers


def test_recorded_answers() -> None:
    for exchange in answers(RequestCode.SEND_MESSAGE_V2):
        fields = answer(exchange).ext_fields
        read = sends.decode_send(answer(exchange))
        assert (read.status, read.is_traced, read.region_id) == (SendStatus.SEND_OK, True, "DefaultRegion")
        assert (str(read.queue_id), str(read.queue_offset)) == (fields["queueId"], fields["queueOffset"])
        assert read.offset_ids == (fields["msgId"],)
        key = decode_properties(decode(exchange.request).ext_fields["i"])["UNIQ_KEY"]
        assert read.transaction_id == (key if exchange.rocketmq == "5.4.0" else None)
    for exchange in answers(RequestCode.SEND_BATCH_MESSAGE):
        assert len(sends.decode_send(answer(exchange)).offset_ids) == 100


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.SUCCESS, SendStatus.SEND_OK),
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
def test_a_status_is_told_as_it_is(code: int, status: SendStatus) -> None:
    fields = {"msgId": "A", "queueId": "1", "queueOffset": "2", "TRACE_ON": "false", "recallHandle": "h"}
    read = sends.decode_send(Command(code, fields))
    assert read == sends.SendAnswer(status, 1, 2, ("A",), None, False, None, "h")
    assert code in sends.STORED


@pytest.mark.parametrize("missing", ["msgId", "queueId", "queueOffset"])
def test_an_answer_without_a_place_is_none(missing: str) -> None:
    fields = {"msgId": "A", "queueId": "1", "queueOffset": "2"}
    with pytest.raises(RemoteProtocolError):
        sends.decode_send(Command(0, {**fields, missing: ""}))
    with pytest.raises(RemoteProtocolError):
        sends.decode_send(Command(0, {key: value for key, value in fields.items() if key != missing}))


# Properties


def test_the_properties_of_a_message() -> None:
    made = sends.message_properties(keys=["k1", "k2"], tag="A", properties={"p": "v"}, delay_level=3)
    assert made == {"p": "v", "WAIT": "true", "KEYS": "k1 k2", "TAGS": "A", "DELAY": "3"}
    assert sends.message_properties() == {"WAIT": "true"}
    assert sends.message_properties(delay_ms=5) == {"WAIT": "true", "TIMER_DELAY_MS": "5"}
    assert sends.message_properties(deliver_at_ms=5) == {"WAIT": "true", "TIMER_DELIVER_MS": "5"}


def test_keys_may_hold_any_white_space_but_blanks() -> None:
    assert sends.message_properties(keys=["a\tb", "订单\u30001024", "end\n"])["KEYS"] == "a\tb 订单\u30001024 end\n"


def test_which_messages_need_a_timer() -> None:
    assert sends.needs_timer({"TIMER_DELAY_MS": "5"})
    assert sends.needs_timer({"TIMER_DELIVER_MS": "5"})
    assert not sends.needs_timer({"TIMER_DELIVER_MS": "5", "DELAY": "1"})
    assert not sends.needs_timer({})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"keys": ["a b"]}, "'a b' is not"),
        ({"keys": [""]}, "'' is not"),
        ({"tag": ""}, "is not a valid tag"),
        ({"tag": "A || B"}, "is not a valid tag"),
        ({"tag": " A"}, "is not a valid tag"),
        ({"tag": "*"}, "is not a valid tag"),
        ({"properties": {"UNIQ_KEY": "x"}}, "UNIQ_KEY is reserved"),
        ({"properties": {"TRAN_MSG": "true"}}, "TRAN_MSG is reserved"),
        ({"properties": {"": "x"}}, "a name and a value"),
        ({"properties": {"x": ""}}, "a name and a value"),
        ({"properties": {"x": "a\x02b"}}, "separator"),
        ({"tag": "a\x01b"}, "separator"),
        ({"properties": {"x": "\udcff"}}, "not valid Unicode"),
        ({"properties": {"x": "ä" * 16_383}}, "the limit is 31743"),
    ],
)
def test_what_would_not_come_back_as_it_was_given(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        sends.message_properties(**given)  # type: ignore[arg-type]


def test_properties_up_to_the_limit_are_sent() -> None:
    text = sends.properties_text({"x": "a" * (32_767 - 3)})
    assert len(text) == 32_767
    with pytest.raises(ValueError, match="32768 bytes"):
        sends.properties_text({"x": "a" * (32_767 - 2)})


def test_a_batch_leaves_room_for_what_brokers_add_since_one_of_4_9_would_break_its_log() -> None:
    longest = OutgoingMessage(b"x", {"x": "a" * (32_767 - 1_024 - 3)})
    assert sends.batch_part(longest)
    longer = OutgoingMessage(b"x", {"x": "a" * (32_767 - 1_024 - 2)})
    with pytest.raises(ValueError, match="31743"):
        sends.batch_part(longer)
    assert sends.send_message("P", MQ, longer, 1).body


def test_a_retry_says_how_often_it_was_tried_and_may_be() -> None:
    mq = MessageQueue("%RETRY%G", "broker-a", 0)
    properties = {"RECONSUME_TIME": "2", "MAX_RECONSUME_TIMES": "16"}
    command = sends.send_message("P", mq, OutgoingMessage(b"x", properties), 1)
    assert (command.ext_fields["j"], command.ext_fields["l"]) == ("2", "16")
    # As Java's: the properties keep both.
    assert decode_properties(command.ext_fields["i"]) == properties
    command = sends.send_message("P", MQ, OutgoingMessage(b"x", properties), 1)
    assert command.ext_fields["j"] == "0"
    assert "l" not in command.ext_fields


# Bodies


def test_large_bodies_are_compressed_as_javas_are() -> None:
    body = b"a" * 4096
    command = sends.send_message("P", MQ, OutgoingMessage(body, {}), 1)
    assert command.ext_fields["f"] == str(0x301)
    assert zlib.decompress(command.body) == body
    command = sends.send_message("P", MQ, OutgoingMessage(body[1:], {}), 1)
    assert (command.ext_fields["f"], command.body) == ("0", body[1:])


def test_what_would_grow_is_not_compressed() -> None:
    body = b"".join(sha256(bytes([number])).digest() for number in range(200))
    command = sends.send_message("P", MQ, OutgoingMessage(body, {}), 1)
    assert (command.ext_fields["f"], command.body) == ("0", body)


def test_a_batchs_part_counts_more_than_it_takes() -> None:
    message = OutgoingMessage(b"body", {"KEYS": "k", "x": "ä"})
    part = sends.batch_part(message)
    assert sends.stored_bytes(part) > len(sends.send_batch("P", MQ, [part], 1).body)
