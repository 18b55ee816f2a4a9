"""Requests that create, change and delete topics (AdminBrokerProcessor)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rmqctl.protocol.codes import ResponseCode

from .attributes import altered, parse_changes, topic_attributes
from .broker import Broker
from .name_rules import check_no_system_topic, check_topic_name
from .request import FailureError, RefusalError, Request
from .topics import MAX_QUEUE_COUNT, Topic, retry_topic

_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


def read_topic(request: Request, *, is_5: bool) -> Topic:
    """Return the topic of an UPDATE_AND_CREATE_TOPIC; its attributes are changes, with their signs.

    Raises RefusalError.
    """
    filter_type = request.text("topicFilterType", "null")
    if filter_type not in _FILTER_TYPES:
        text = f"topicFilterType = [{filter_type}] value invalid"
        raise FailureError(f"org.apache.rocketmq.remoting.exception.RemotingCommandException: {text}")
    name = request.text("topic") if is_5 else request.text("topic", "")
    return Topic(
        name, request.number("readQueueNums"), request.number("writeQueueNums"),
        request.number("perm"), filter_type, request.number("topicSysFlag", 0),
        is_5 and request.flag("order"),  # which 4.9 ignores
        parse_changes(request.text("attributes", "")) if is_5 else {},
    )  # fmt: skip


def read_listed_topic(item: dict[str, Any]) -> Topic:
    """Return one topic of an UPDATE_AND_CREATE_TOPIC_LIST; its attributes are changes, with their signs."""
    return Topic.from_wire(str(item.get("topicName") or ""), item)


def update_topic(broker: Broker, wanted: Topic) -> None:
    """Create or change a topic. Raises RefusalError."""
    check(broker, wanted)
    if not _is_there(broker, wanted):
        _put(broker, wanted)


def update_topics(broker: Broker, wanted: list[Topic]) -> None:
    """Create or change topics; change none when one of them is already as requested. Raises RefusalError.

    They are registered with the name server at the end, so none is registered when one fails.
    """
    for topic in wanted:
        check(broker, topic)
        if _is_there(broker, topic):
            return
    for topic in wanted:
        _put(broker, topic, is_told=False)
    for topic in wanted:
        broker.topics.on_change(topic.name)


def check(broker: Broker, wanted: Topic) -> None:
    """Raise RefusalError for a topic that no request may create or change."""
    check_topic_name(broker.profile, wanted.name)
    check_no_system_topic(broker.profile, wanted.name, broker.topics.system_names)
    if max(wanted.read_queue_count, wanted.write_queue_count) > MAX_QUEUE_COUNT:
        remark = f"the sandbox allows at most {MAX_QUEUE_COUNT} queues per topic"
        raise RefusalError(ResponseCode.INVALID_PARAMETER, remark)
    if wanted.attributes.get("+message.type") == "MIXED" and not broker.settings.flag("enableMixedMessageType"):
        raise RefusalError(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")


def _is_there(broker: Broker, wanted: Topic) -> bool:
    return broker.profile.is_5 and broker.topics.find(wanted.name) == wanted


def _put(broker: Broker, wanted: Topic, *, is_told: bool = True) -> None:
    before = broker.topics.find(wanted.name)
    current = {} if before is None else before.attributes
    attributes = altered(topic_attributes(broker.profile), current, wanted.attributes, is_new=before is None)
    broker.topics.put(replace(wanted, attributes=attributes), is_told=is_told)


def delete_topic(broker: Broker, name: str) -> None:
    """Delete a topic with its messages; 5.x also deletes the groups' offsets of it and their retry topics for pops."""
    if broker.settings.flag("clearRetryTopicWhenDeleteTopic"):  # which 4.9 does not have
        for group in broker.offsets.groups_of(name):
            for separator in ("+", "_"):
                retry = f"{retry_topic(group)}{separator}{name}"
                if broker.topics.find(retry) is not None:
                    _delete(broker, retry)
    _delete(broker, name)


def _delete(broker: Broker, name: str) -> None:
    if broker.profile.is_5:
        broker.offsets.delete(topic=name)
        broker.stats.forget(topic=name)
        broker.pop.orders.forget(topic=name)
    broker.topics.delete(name)
    broker.store.delete_topic(name)
    broker.holds.end_all(name)
