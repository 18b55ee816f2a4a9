"""Requests that change data on a broker: one function per request, with the field names of RocketMQ's header class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .codes import RequestCode
from .command import Command


def update_consumer_offset(group: str, topic: str, queue_id: int, offset: int) -> Command:
    """Store an offset (UpdateConsumerOffsetRequestHeader).

    Brokers accept any number; one below 0 means none. 5.x refuses unknown groups and topics. While a reset of the queue
    waits for its client, it answers SUCCESS with the remark OFFSET_HELD and stores nothing.
    """
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)}
    return Command(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


# ConsumerManageProcessor.updateConsumerOffset.
OFFSET_HELD = "Offset has been previously reset"


def reset_offset(group: str, topic: str, queue_id: int, offset: int) -> Command:
    """Store one offset and move the next client that pulls to it (ResetOffsetRequestHeader; server-side, from 5.2.0).

    Do not send it to a broker that resets through its clients: such a broker ignores queue and offset.
    """
    fields = {
        "group": group, "topic": topic, "queueId": str(queue_id), "offset": str(offset), "timestamp": "0",
        "isForce": "true",
    }  # fmt: skip
    return Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)


def ask_for_reset(group: str, topic: str, queue_id: int) -> Command:
    """Ask for a reset that a broker which resets offsets itself refuses: no queue has that offset.

    Only an account that may reset the group gets that far. A broker that resets through its clients moves none of them.
    """
    fields = {
        "group": group, "topic": topic, "queueId": str(queue_id), "offset": str(2**63 - 1), "timestamp": "-1",
        "isForce": "false",
    }  # fmt: skip
    return Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)


def push_stored_offsets(group: str, topic: str, *, for_cpp: bool = False) -> Command:
    """Have a broker move its clients to its stored offsets, for all queues of a topic (ResetOffsetRequestHeader).

    Without force, the broker pushes the smaller of stored offset and target, and the target here is the queue's end. So
    clients that can only be reset to a time move to any offset that was stored just before. The answer has the pushed
    offsets. Set `for_cpp` if all clients are C++ clients: they read another body, which Java's clients cannot read.
    """
    fields = {"group": group, "topic": topic, "timestamp": "-1", "isForce": "false"}
    language = "CPP" if for_cpp else "PYTHON"
    return Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, language=language)


def update_group(config: Mapping[str, Any]) -> Command:
    """Store the whole configuration of a group; omitted settings fall back to their defaults (200)."""
    return Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=msgspec.json.encode(config))


_TOPIC_FIELDS = ("readQueueNums", "writeQueueNums", "perm", "topicFilterType", "topicSysFlag", "order")


def update_topic(config: Mapping[str, Any], attribute_steps: Mapping[str, str] = {}) -> Command:
    """Store the configuration of a topic, given as TopicConfig's JSON (CreateTopicRequestHeader).

    Its attributes change step by step, and all others are kept: +name sets one to a value, -name removes it
    (AttributeParser); neither may contain a comma or "=". 4.9 has no attributes, ignores `order` and stores false.
    """
    fields = {"topic": config["topicName"], "defaultTopic": _DEFAULT_TOPIC}
    fields |= {name: _java_text(config[name]) for name in _TOPIC_FIELDS if name in config}
    if attribute_steps:
        steps = (f"{name}={value}" if name.startswith("+") else name for name, value in attribute_steps.items())
        fields["attributes"] = ",".join(steps)
    return Command(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


# The header must name one; the broker ignores it (TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC).
_DEFAULT_TOPIC = "TBW102"


def _java_text(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def delete_topic(topic: str) -> Command:
    """Delete a topic with its messages from a broker; name servers keep its route (DeleteTopicRequestHeader)."""
    return Command(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})


def forget_topic(topic: str) -> Command:
    """Delete a topic's route from a name server, for all brokers (DeleteTopicFromNamesrvRequestHeader)."""
    return Command(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})


def update_broker_config(values: Mapping[str, str]) -> Command:
    """Change settings of a broker, which it keeps in its configuration file (MixAll.properties2String).

    After a change of brokerPermission, even to the same value, a broker registers all its topics at the name servers,
    with their own permissions as far as brokerPermission allows them.
    """
    text = "".join(f"{name}={value}\n" for name, value in values.items())
    return Command(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def wipe_write_permission(broker_name: str) -> Command:
    """Remove write permission from all topics of a broker in a name server's routes (WipeWritePermOfBroker...)."""
    return Command(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": broker_name})


def add_write_permission(broker_name: str) -> Command:
    """Give all topics of a broker read and write permission in a name server's routes (AddWritePermOfBroker...).

    Name servers since 4.9.2.
    """
    return Command(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": broker_name})


def delete_group(group: str, *, with_offsets: bool) -> Command:
    """Delete the configuration of a group, optionally with its offsets (DeleteSubscriptionGroupRequestHeader).

    5.x calls the flag cleanOffset, 4.9 removeOffset.
    """
    flag = "true" if with_offsets else "false"
    fields = {"groupName": group, "cleanOffset": flag, "removeOffset": flag}
    return Command(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)


def acknowledge_popped(group: str, topic: str, queue_id: int, queue_offset: int, handle: str) -> Command:
    """Acknowledge a popped message (AckMessageRequestHeader); `topic` is the topic that stores it. 5.x only."""
    fields = {
        "consumerGroup": group, "topic": topic, "queueId": str(queue_id), "offset": str(queue_offset),
        "extraInfo": handle,
    }  # fmt: skip
    return Command(RequestCode.ACK_MESSAGE, fields)
