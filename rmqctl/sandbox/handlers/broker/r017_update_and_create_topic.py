"""UPDATE_AND_CREATE_TOPIC: create or change one topic (AdminBrokerProcessor.updateAndCreateTopic)."""

from __future__ import annotations

from msgspec.structs import replace

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import UNSET_REMARK, FailureError, RefusalError, Request, ok
from rmqctl.sandbox.topics.attributes import altered, parse_changes, topic_attributes
from rmqctl.sandbox.topics.name_rules import check_no_system_topic, check_topic_name
from rmqctl.sandbox.topics.table import MAX_QUEUE_COUNT, Topic

_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


def handle(broker: Broker, request: Request) -> Command:
    """Check the name, then accept any numbers of queues and permissions."""
    wanted = _read(request, is_5=broker.profile.is_5)
    check_topic(broker, wanted)
    if not is_unchanged(broker, wanted):
        put_topic(broker, wanted)
    return ok(remark=UNSET_REMARK)


def _read(request: Request, *, is_5: bool) -> Topic:
    """Return the topic of the request; its attributes are changes, with their signs. Raises FailureError."""
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


def check_topic(broker: Broker, wanted: Topic) -> None:
    """Raise RefusalError for a topic that no request may create or change."""
    check_topic_name(broker.profile, wanted.name)
    check_no_system_topic(broker.profile, wanted.name, broker.topics.system_names)
    if max(wanted.read_queue_count, wanted.write_queue_count) > MAX_QUEUE_COUNT:
        remark = f"the sandbox allows at most {MAX_QUEUE_COUNT} queues per topic"
        raise RefusalError(ResponseCode.INVALID_PARAMETER, remark)
    if wanted.attributes.get("+message.type") == "MIXED" and not broker.settings.flag("enableMixedMessageType"):
        raise RefusalError(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")


def is_unchanged(broker: Broker, wanted: Topic) -> bool:
    """Return whether a topic is already as requested; 4.9 does not check that."""
    return broker.profile.is_5 and broker.topics.find(wanted.name) == wanted


def put_topic(broker: Broker, wanted: Topic, *, is_reported: bool = True) -> None:
    """Create or change a topic, and register it unless `is_reported` is false."""
    before = broker.topics.find(wanted.name)
    current = {} if before is None else before.attributes
    attributes = altered(topic_attributes(broker.profile), current, wanted.attributes, is_new=before is None)
    broker.topics.put(replace(wanted, attributes=attributes), is_reported=is_reported)
