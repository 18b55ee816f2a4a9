"""QUERY_CONSUME_TIME_SPAN: the age of a group's next messages (AdminBrokerProcessor.queryConsumeTimeSpan)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.consume_stats import time_spans
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import RefusalError, Request, ok_json

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Return a list of queues."""
    name, group = request.text("topic"), request.text("group", "null")
    topic = broker.topics.find(name)
    if topic is None:
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    return ok_json({"consumeTimeSpanSet": time_spans(broker, group, topic)})
