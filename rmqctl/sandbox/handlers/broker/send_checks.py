"""What brokers check before they store a message (AbstractSendMessageProcessor.msgCheck, handleRetryAndDLQ)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.flags import Permission
from rmqctl.protocol.record import Host
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.delivery.delays import DELAY
from rmqctl.sandbox.profile import Profile
from rmqctl.sandbox.request import FailureError, RefusalError, Request
from rmqctl.sandbox.storage.store import NewMessage
from rmqctl.sandbox.topics.name_rules import check_topic_name
from rmqctl.sandbox.topics.table import NO_SEND_TOPICS, READ_WRITE, UNIT, UNIT_SUBSCRIBED, Topic, dlq_topic

# The fields of SEND_MESSAGE and what SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE call them.
_SHORT = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
    "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
    "maxReconsumeTimes": "l", "batch": "m",
}  # fmt: skip
_LONG = {name: name for name in _SHORT}
_WITH_LONG_NAMES = {RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE}

_NO_SEND_TOPICS_5 = NO_SEND_TOPICS | {"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"}

# Clients before this release do not send their maximum of reconsume times (MQVersion.V3_4_9).
SENDS_MAX_TIMES = 121


class SendFields(Struct, frozen=True):
    """A send request's fields and body, under one set of names."""

    producer_group: str
    topic: str
    default_topic: str | None
    default_queue_count: int | None
    queue_id: int
    sys_flag: int
    born_at_ms: int
    born_host: Host
    producer: str
    flag: int
    properties: str
    reconsume_times: int
    max_reconsume_times: int | None
    is_unit: bool
    is_batch: bool
    body: bytes


def read_fields(request: Request, profile: Profile) -> SendFields:
    """Read the fields of any send request. Raises FailureError for missing fields and invalid numbers."""
    is_5 = profile.is_5
    names = _LONG if request.command.code in _WITH_LONG_NAMES else _SHORT
    if is_5 and not request.command.body:
        raise FailureError("java.lang.NullPointerException: the message has no body")
    topic = request.text(names["topic"]) if is_5 else request.text(names["topic"], "")
    if not topic:
        check_topic_name(profile, topic)
    max_times = names["maxReconsumeTimes"]
    return SendFields(
        producer_group=request.text(names["producerGroup"], ""),
        topic=topic,
        default_topic=request.text(names["defaultTopic"], None),
        default_queue_count=int32(request, names["defaultTopicQueueNums"], None),
        queue_id=int32(request, names["queueId"]),
        sys_flag=int32(request, names["sysFlag"]),
        born_at_ms=request.number(names["bornTimestamp"]),
        born_host=request.channel.host,
        producer=request.channel.address,
        flag=int32(request, names["flag"]),
        properties=request.text(names["properties"], ""),
        reconsume_times=int32(request, names["reconsumeTimes"], 0),
        max_reconsume_times=int32(request, max_times, None) if request.command.version >= SENDS_MAX_TIMES else None,
        is_unit=request.flag(names["unitMode"]),
        is_batch=request.flag(names["batch"]),
        body=request.command.body,
    )


_REQUIRED = object()


def int32(request: Request, name: str, default: Any = _REQUIRED) -> Any:
    """Return a 32-bit number, or the default when it is missing. Raises FailureError."""
    if default is not _REQUIRED and name not in request.fields:
        return default
    number = request.number(name)
    if not -(2**31) <= number < 2**31:
        raise FailureError(f'java.lang.NumberFormatException: For input string: "{number}"')
    return number


def find_topic(broker: Broker, fields: SendFields) -> Topic:
    """Return the topic to send to; create it if that is allowed. Raises RefusalError."""
    profile, name = broker.profile, fields.topic
    topic = broker.topics.find(name)
    # A read-only broker is marked in the routes; it refuses only ordered topics.
    if not broker.permission & Permission.WRITE and topic is not None and topic.is_ordered:
        raise broker_forbidden(broker)
    check_topic_name(profile, name)
    if name in (_NO_SEND_TOPICS_5 if profile.is_5 else NO_SEND_TOPICS):
        raise RefusalError(ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
    if topic is None:
        topic = _create(broker, fields)
    if fields.queue_id >= max(topic.write_queue_count, topic.read_queue_count):
        raise RefusalError(
            ResponseCode.INVALID_PARAMETER if profile.is_5 else ResponseCode.SYSTEM_ERROR,
            f"request queueId[{fields.queue_id}] is illegal, {_describe(topic, profile)} Producer: {fields.producer}",
        )
    return topic


def broker_forbidden(broker: Broker) -> RefusalError:
    """Return the refusal of a read-only broker."""
    return RefusalError(
        ResponseCode.NO_PERMISSION, f"the broker[{broker.store_host_text}] sending message is forbidden"
    )


def _create(broker: Broker, fields: SendFields) -> Topic:
    name, is_retry = fields.topic, fields.topic.startswith(RETRY_PREFIX)
    sys_flag = 0 if not fields.is_unit else UNIT_SUBSCRIBED if is_retry else UNIT
    if fields.default_queue_count is None or fields.default_topic is None:
        raise FailureError("java.lang.NullPointerException: the request has no default topic or no number of queues")
    topic = broker.topics.create_for_send(name, fields.default_topic, fields.default_queue_count, sys_flag)
    if topic is None and is_retry:
        topic = broker.topics.create_for_group(name, 1, sys_flag=sys_flag)
    if topic is None:
        remark = f"topic[{name}] not exist, apply first please!"
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, f"{remark}{broker.profile.advice}")
    return topic


def find_group(broker: Broker, group: str) -> dict[str, Any]:
    """Return a group's configuration; create it if that is allowed. Raises RefusalError."""
    config = broker.groups.find_or_create(group)
    if config is None:
        remark = f"subscription group not exist, {group} {broker.profile.advice}"
        raise RefusalError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    return config


def redirect_to_dlq(broker: Broker, message: NewMessage, config: dict[str, Any], fields: SendFields) -> None:
    """Redirect a client's own retry message to the dead letters after the last attempt.

    Since 5.1.1 it is also redirected while any client holds a lock of the group, because it then comes from an orderly
    consumer that has given up.
    """
    group = str(config["groupName"])
    limit = config["retryMaxTimes"] if fields.max_reconsume_times is None else fields.max_reconsume_times
    if broker.profile.is_5:
        is_dead = fields.reconsume_times > limit or broker.locks.has_any(group)
    else:
        is_dead = fields.reconsume_times >= limit
    if not is_dead:
        return
    broker.topics.create_for_group(dlq_topic(group), 1, READ_WRITE)
    message.topic, message.queue_id = dlq_topic(group), 0
    if broker.profile.is_5:  # 4.9 keeps the level, so dead letters arrive late
        message.properties[DELAY] = "-1"


def _describe(topic: Topic, profile: Profile) -> str:
    """Return a topic in the format of Java's TopicConfig.toString."""
    letters = ((Permission.READ, "R"), (Permission.WRITE, "W"), (Permission.INHERIT, "X"))
    perm = "".join(letter if topic.perm & bit else "-" for bit, letter in letters)
    attributes = ""
    if profile.is_5:
        pairs = ", ".join(f"{name}={value}" for name, value in topic.attributes.items())
        attributes = f", attributes={{{pairs}}}"
    return (
        f"TopicConfig [topicName={topic.name}, readQueueNums={topic.read_queue_count}, "
        f"writeQueueNums={topic.write_queue_count}, perm={perm}, topicFilterType={topic.filter_type}, "
        f"topicSysFlag={topic.sys_flag}, order={str(topic.is_ordered).lower()}{attributes}]"
    )
