"""UPDATE_CONSUMER_OFFSET: store an offset (ConsumerManageProcessor.updateConsumerOffset)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Store any offset, backwards as well; 5.x requires an existing group and topic."""
    if broker.profile.is_5:
        return _check_and_store(broker, request)
    group, topic = request.text("consumerGroup", "null"), request.text("topic", "null")
    broker.offsets.store(group, topic, request.number("queueId"), request.number("commitOffset"))
    return ok()


def _check_and_store(broker: Broker, request: Request) -> Command:
    group, topic = request.text("consumerGroup", "null"), request.text("topic")
    queue_id, offset = request.number("queueId", None), request.number("commitOffset", None)
    if broker.groups.find(group) is None:
        raise RefusalError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
    if broker.topics.find(topic) is None:
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
    if queue_id is None:
        raise RefusalError(ResponseCode.INVALID_PARAMETER, f"QueueId is null, topic is {topic}")
    if offset is None:
        raise RefusalError(ResponseCode.INVALID_PARAMETER, f"Offset is null, topic is {topic}")
    if broker.settings.flag("useServerSideResetOffset") and broker.offsets.has_reset(group, topic, queue_id):
        return ok(remark="Offset has been previously reset")
    broker.offsets.store(group, topic, queue_id, offset)
    return ok()
