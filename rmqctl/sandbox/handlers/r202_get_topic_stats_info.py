"""GET_TOPIC_STATS_INFO: smallest and next offset of each queue of a topic (AdminBrokerProcessor.getTopicStatsInfo)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.consume_stats import topic_stats
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import RefusalError, Request, ok_json

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Return the table by queue."""
    name = request.text("topic")
    topic = broker.topics.find(name)
    if topic is None:
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    return ok_json(topic_stats(broker, topic))
