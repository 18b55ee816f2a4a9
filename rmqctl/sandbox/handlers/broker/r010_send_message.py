"""SEND_MESSAGE: store a message; fields have their full names (SendMessageProcessor)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import MessageFlag
from rmqctl.protocol.message_id import encode_offset_id
from rmqctl.protocol.properties import SHARDING_KEY, UNIQ_KEY
from rmqctl.protocol.record import iter_batch
from rmqctl.protocol.sends import DELAY, TRAN_MSG
from rmqctl.rules.message_wait import REAL_TOPIC
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.delivery.delays import delay_level
from rmqctl.sandbox.delivery.timers import ASKED_BY, TIMER_OUT_MS
from rmqctl.sandbox.delivery.unique_keys import new_unique_key
from rmqctl.sandbox.request import FailureError, RefusalError, Request, answer
from rmqctl.sandbox.storage.store import NewMessage, PutMessageResult
from rmqctl.sandbox.storage.stored_text import illegal_message, join_properties, read_indexed, split_properties
from rmqctl.sandbox.topics.table import Topic
from rmqctl.sandbox.transactions.half_messages import is_half

from .r370_recall_message import recall_handle
from .send_checks import SendFields, find_group, find_topic, read_fields, redirect_to_dlq

_CLUSTER = "CLUSTER"
_WAIT = "WAIT"
_MSG_REGION = "MSG_REGION"
_TRACE_ON = "TRACE_ON"
_POP_CK = "POP_CK"
_INNER_NUM = "INNER_NUM"
_PRIORITY = "_SYS_MSG_PRIORITY_"
# The properties of delayed and ordered messages.
_OTHER_TYPES = (DELAY, *ASKED_BY, SHARDING_KEY)
_MAX_INT = 2**31 - 1

_TRANSACTION_BITS = MessageFlag.TRANSACTION_ROLLED_BACK
# TopicFilterType.MULTI_TAG.
_MULTI_TAG = "MULTI_TAG"


class _Sent(Struct, frozen=True):
    """What the answer to a send reports: the position of the first message, and values from the properties."""

    placed: list[PutMessageResult]
    queue_id: int
    properties: Mapping[str, str]


def handle(broker: Broker, request: Request) -> Command:
    """Store a message or a batch, and answer with its position. Raises RefusalError."""
    is_5 = broker.profile.is_5
    region = region_fields(broker)
    try:
        fields = read_fields(request, broker.profile)
        topic = find_topic(broker, fields)
        sent = _send_batch(broker, fields, topic) if fields.is_batch else _send_one(broker, fields, topic)
    except FailureError:
        raise
    except RefusalError as refusal:
        raise RefusalError(refusal.code, refusal.remark, **region) from None
    address, port = broker.store_host
    ids = [encode_offset_id(address, port, place.commit_log_offset) for place in sent.placed]
    handle = None
    if is_5 and request.command.code != RequestCode.SEND_BATCH_MESSAGE:
        handle = _handle(broker, sent.properties)
    is_flushed = all(place.is_flushed for place in sent.placed)
    return answer(
        ResponseCode.SUCCESS if is_flushed else ResponseCode.FLUSH_DISK_TIMEOUT,
        msgId=",".join(ids), queueId=sent.queue_id, queueOffset=sent.placed[0].queue_offset,
        transactionId=sent.properties.get(UNIQ_KEY) if is_5 else None, recallHandle=handle, **region,
    )  # fmt: skip


def _handle(broker: Broker, properties: Mapping[str, str]) -> str | None:
    """Return the handle to recall a message that waits for its time (attachRecallHandle)."""
    slot, topic = properties.get(TIMER_OUT_MS), properties.get(REAL_TOPIC)
    if slot is None or topic is None or topic.startswith(RETRY_PREFIX):
        return None
    return recall_handle(topic, broker.name, int(slot) + 1, properties.get(UNIQ_KEY, ""))


def region_fields(broker: Broker) -> dict[str, Any]:
    """Return what every answer to a send has, unless RocketMQ fails."""
    return {_MSG_REGION: broker.settings.text("regionId"), _TRACE_ON: broker.settings.text("traceOn")}


def choose_queue(fields: SendFields, topic: Topic) -> int:
    """Return the requested queue, or any queue for a negative number."""
    if fields.queue_id >= 0:
        return fields.queue_id
    if not topic.write_queue_count:
        raise FailureError("java.lang.ArithmeticException: / by zero")
    return random.randrange(topic.write_queue_count)  # noqa: S311


def _new_message(broker: Broker, fields: SendFields, topic: Topic, queue_id: int) -> NewMessage:
    properties = split_properties(fields.properties)
    if broker.profile.is_5:
        properties.pop(_POP_CK, None)
        properties[_MSG_REGION] = broker.settings.text("regionId")
        properties[_TRACE_ON] = broker.settings.text("traceOn")
    properties[_CLUSTER] = broker.cluster
    return NewMessage(
        topic=topic.name, queue_id=queue_id, body=fields.body, properties=properties, flag=fields.flag,
        sys_flag=fields.sys_flag | (MessageFlag.MULTI_TAGS if topic.filter_type == _MULTI_TAG else 0),
        born_at_ms=fields.born_at_ms, born_host=fields.born_host, reconsume_times=fields.reconsume_times,
    )  # fmt: skip


def _send_one(broker: Broker, fields: SendFields, topic: Topic) -> _Sent:
    is_5 = broker.profile.is_5
    queue_id = choose_queue(fields, topic)
    message = _new_message(broker, fields, topic, queue_id)
    properties = message.properties
    if topic.name.startswith(RETRY_PREFIX):
        group = topic.name.removeprefix(RETRY_PREFIX)
        redirect_to_dlq(broker, message, find_group(broker, group), fields)
    if is_5 and not properties.get(UNIQ_KEY):
        properties[UNIQ_KEY] = new_unique_key(broker.store_host, broker.now_ms())
    if is_5 and (chosen := _queue_of_priority(properties, topic)) is not None:
        queue_id = message.queue_id = chosen
    is_prepared = _is_prepared(broker, message)
    if is_5:
        if message.sys_flag & MessageFlag.INNER_BATCH or _INNER_NUM in properties:
            raise illegal_message(broker.settings.number("maxMessageSize"))
    elif delay_level(properties) <= 0 and not is_prepared:
        # Delayed and half messages are rewritten with all their properties, including this one.
        properties.pop(_WAIT, None)
    placed = broker.halves.prepare(message) if is_prepared else broker.put(message)
    return _Sent([placed], queue_id, properties)


def _queue_of_priority(properties: dict[str, str], topic: Topic) -> int | None:
    """Return the queue of a message with a priority, which is that number; None without one.

    A message that is also ordered, delayed or of a transaction loses its priority (TopicMessageType).
    """
    priority = properties.get(_PRIORITY, "")
    if not priority.isdecimal() or int(priority) > _MAX_INT:
        return None
    if properties.get(TRAN_MSG, "").lower() == "true" or any(name in properties for name in _OTHER_TYPES):
        del properties[_PRIORITY]
        return None
    return min(int(priority), topic.write_queue_count - 1)


def _is_prepared(broker: Broker, message: NewMessage) -> bool:
    """Return whether a message is a half message.

    Refuses it where the broker rejects them; and always a message that has only the flag of one, which RocketMQ writes
    to the log and to no queue.
    """
    prepared = is_half(message.properties, message.reconsume_times, is_5=broker.profile.is_5)
    is_rejected = prepared and broker.settings.flag("rejectTransactionMessage")
    if is_rejected or (not prepared and message.sys_flag & MessageFlag.TRANSACTION_PREPARED):
        raise RefusalError(
            ResponseCode.NO_PERMISSION,
            f"the broker[{broker.store_host_text}] sending transaction message is forbidden",
        )
    return prepared


def _send_batch(broker: Broker, fields: SendFields, topic: Topic) -> _Sent:
    is_5 = broker.profile.is_5
    queue_id = choose_queue(fields, topic)
    if is_5 and topic.name.startswith(RETRY_PREFIX):
        remark = f"batch request does not support retry group {topic.name}"
        raise RefusalError(ResponseCode.MESSAGE_ILLEGAL, remark)
    if not fields.body:
        raise FailureError("java.lang.NullPointerException: the batch has no body")
    batch = _new_message(broker, fields, topic, queue_id)
    properties, longest_bytes = batch.properties, broker.settings.number("maxMessageSize")
    if (
        len(batch.body) > longest_bytes
        or batch.sys_flag & _TRANSACTION_BITS
        or (delay_level(properties) > 0)
        # RocketMQ stores such a batch where its timers fail on it, and never delivers it.
        or (is_5 and any(name in properties for name in ASKED_BY))
    ):
        raise illegal_message(longest_bytes)
    # 5.x keeps the messages' own properties unchanged; 4.9 adds those of the batch to each message.
    added = b"" if is_5 else join_properties(properties, broker.profile)
    messages = []
    for part in iter_batch(batch.body):
        text = part.properties.encode()
        if added:
            text = text + added if not text or text.endswith(b"\x02") else text + b"\x02" + added
        own = read_indexed(part.properties)
        messages.append(NewMessage(
            topic=batch.topic, queue_id=queue_id, body=part.body, properties=own if is_5 else {**own, **properties},
            flag=part.flag, sys_flag=batch.sys_flag, born_at_ms=batch.born_at_ms, born_host=batch.born_host,
            reconsume_times=batch.reconsume_times, text=text,
        ))  # fmt: skip
    return _Sent(broker.put_all(messages), queue_id, properties)
