"""CONSUMER_SEND_MSG_BACK: a consumer sends a message back for redelivery (SendMessageProcessor)."""

from __future__ import annotations

import random
from typing import Any

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import Permission
from rmqctl.protocol.message import StoredMessage
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.delivery.delays import DELAY
from rmqctl.sandbox.request import RefusalError, Request, ok
from rmqctl.sandbox.storage.store import NewMessage, copy_of
from rmqctl.sandbox.topics.table import UNIT_SUBSCRIBED, dlq_topic, retry_topic

from .send_checks import SENDS_MAX_TIMES, broker_forbidden, find_group, int32

_RETRY_TOPIC = "RETRY_TOPIC"
_ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
_WAIT = "WAIT"

# The delay level of the first retry; each further one uses the next level.
_FIRST_LEVEL = 3


def handle(broker: Broker, request: Request) -> Command:
    """Store a message again for redelivery to its group, or as a dead letter. Raises RefusalError."""
    group = request.text("group")
    config = find_group(broker, group)
    if not broker.permission & Permission.WRITE:
        raise broker_forbidden(broker)
    queue_count = config["retryQueueNums"]
    if queue_count <= 0:
        return ok()  # and the message is lost
    topic = broker.topics.create_for_group(
        retry_topic(group), queue_count, sys_flag=UNIT_SUBSCRIBED if request.flag("unitMode") else 0
    )
    if not topic.perm & Permission.WRITE:
        raise RefusalError(ResponseCode.NO_PERMISSION, f"the topic[{topic.name}] sending message is forbidden")
    offset = request.number("offset")
    old = broker.store.message_in_log(offset)
    if old is None:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
    message = _copy(old, topic.name, random.randrange(queue_count))  # noqa: S311
    level = int32(request, "delayLevel")
    if level < 0 or old.reconsume_times >= _limit(request, config):
        if broker.profile.is_5:
            request.text("originTopic")  # which 5.x counts dead letters by, and fails without
        message.topic, message.queue_id = broker.topics.create_for_group(dlq_topic(group), 1).name, 0
        level = 0
    elif level == 0:
        level = _FIRST_LEVEL + old.reconsume_times
    message.properties[DELAY] = str(min(level, broker.delays.level_count))
    try:
        placed = broker.put(message)
    except RefusalError as refusal:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, ResponseCode(refusal.code).name) from None
    if not placed.is_flushed:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, ResponseCode.FLUSH_DISK_TIMEOUT.name)
    broker.stats.add("SNDBCK_PUT_NUMS", f"{message.properties[_RETRY_TOPIC]}@{group}")
    return ok()


def _limit(request: Request, config: dict[str, Any]) -> int:
    """Return how often a message may be redelivered, as set by the client or by the group's configuration."""
    limit: int | None = None
    if request.command.version >= SENDS_MAX_TIMES:
        limit = int32(request, "maxReconsumeTimes", None)
    return int(config["retryMaxTimes"]) if limit is None else limit


def _copy(old: StoredMessage, topic: str, queue_id: int) -> NewMessage:
    """Return the copy of a message that is stored for its next attempt."""
    properties = {name: value for name, value in old.properties.items() if name and value}
    properties.setdefault(_RETRY_TOPIC, old.topic)
    properties.setdefault(_ORIGIN_MESSAGE_ID, old.offset_id)
    properties[_WAIT] = "false"
    message = copy_of(old, properties)
    message.topic, message.queue_id = topic, queue_id
    message.reconsume_times += 1
    return message
