"""Requests that change what a broker holds: one function each, with the field names of RocketMQ's header class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .codes import RequestCode
from .command import Command


def update_consumer_offset(group: str, topic: str, queue_id: int, offset: int) -> Command:
    """Store an offset (UpdateConsumerOffsetRequestHeader).

    Brokers take any number: below 0 stands for none. 5.x refuses groups and topics that it does not know, and answers
    SUCCESS with the remark OFFSET_HELD, and stores nothing, while a reset of that queue waits for its client.
    """
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)}
    return Command(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


# ConsumerManageProcessor.updateConsumerOffset.
OFFSET_HELD = "Offset has been previously reset"


def reset_offset(group: str, topic: str, queue_id: int, offset: int) -> Command:
    """Store one offset and send whoever pulls next there (ResetOffsetRequestHeader; from 5.2.0 on, server side).

    A broker that resets through its clients takes no notice of queue and offset: it must not be asked so.
    """
    fields = {
        "group": group, "topic": topic, "queueId": str(queue_id), "offset": str(offset), "timestamp": "0",
        "isForce": "true",
    }  # fmt: skip
    return Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)


def push_stored_offsets(group: str, topic: str, *, for_cpp: bool = False) -> Command:
    """Let a broker send its clients to the offsets that it stores, all queues of a topic (ResetOffsetRequestHeader).

    What is pushed without force is the smaller of stored offset and target, and the target here is the end: so clients
    that can only be sent to a time go to any offset that was stored just before. The answer tells what was pushed.
    `for_cpp`: all of them are C++ clients, which read another body, and Java's clients do not.
    """
    fields = {"group": group, "topic": topic, "timestamp": "-1", "isForce": "false"}
    language = "CPP" if for_cpp else "PYTHON"
    return Command(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, language=language)


def update_group(config: Mapping[str, Any]) -> Command:
    """Store the configuration of a group, whole: what is left out falls back to its default (200)."""
    return Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=msgspec.json.encode(config))


_TOPIC_FIELDS = ("readQueueNums", "writeQueueNums", "perm", "topicFilterType", "topicSysFlag", "order")


def update_topic(config: Mapping[str, Any]) -> Command:
    """Store the configuration of a topic, given as TopicConfig's JSON (CreateTopicRequestHeader).

    Attributes are kept: the request would change them one by one, and has none. 4.9 does not look at `order`, and
    stores false.
    """
    fields = {"topic": config["topicName"], "defaultTopic": _DEFAULT_TOPIC}
    fields |= {name: _java_text(config[name]) for name in _TOPIC_FIELDS if name in config}
    return Command(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


# The header must name one, and the broker does not look at it (TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC).
_DEFAULT_TOPIC = "TBW102"


def _java_text(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def delete_group(group: str, *, with_offsets: bool) -> Command:
    """Delete the configuration of a group, and its offsets as well (DeleteSubscriptionGroupRequestHeader).

    5.x calls the flag cleanOffset, 4.9 removeOffset.
    """
    flag = "true" if with_offsets else "false"
    fields = {"groupName": group, "cleanOffset": flag, "removeOffset": flag}
    return Command(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)


def acknowledge_popped(group: str, topic: str, queue_id: int, queue_offset: int, handle: str) -> Command:
    """Acknowledge a popped message (AckMessageRequestHeader); `topic` is the one in which it is stored. 5.x only."""
    fields = {
        "consumerGroup": group, "topic": topic, "queueId": str(queue_id), "offset": str(queue_offset),
        "extraInfo": handle,
    }  # fmt: skip
    return Command(RequestCode.ACK_MESSAGE, fields)
