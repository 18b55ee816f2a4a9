"""QUERY_TOPICS_BY_CONSUMER: the topics that a group has offsets of (AdminBrokerProcessor.queryTopicsByConsumer)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Return the list, empty for a group that does not exist."""
    topics = broker.offsets.topics_of(request.text("group", ""))
    return ok_json({"brokerAddr": broker.address, "topicList": topics})
