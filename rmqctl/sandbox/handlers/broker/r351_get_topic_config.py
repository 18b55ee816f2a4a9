"""GET_TOPIC_CONFIG: one topic (AdminBrokerProcessor.getTopicConfig)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok_json

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Return its configuration."""
    name = request.text("topic")
    topic = broker.topics.find(name)
    if topic is None:
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
    return ok_json(topic.to_wire())
