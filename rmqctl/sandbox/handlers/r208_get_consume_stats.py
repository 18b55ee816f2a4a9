"""GET_CONSUME_STATS: a group's progress (AdminBrokerProcessor.getConsumeStats)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.consume_stats import consume_stats, consumed_topics, is_blank
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok_json

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Return a table by queue: of the listed topics, or of one topic, or of all topics with stored offsets.

    4.9 ignores the list, and treats a missing group as one without offsets.
    """
    is_5 = broker.profile.is_5
    group = request.text("consumerGroup") if is_5 else request.text("consumerGroup", "")
    topic, listed = request.text("topic", ""), request.text("topicList", "") if is_5 else ""
    if not is_blank(listed):
        # In this case the group's subscriptions are ignored.
        return ok_json(consume_stats(broker, group, sorted({name for name in listed.split(";") if name})))
    topics = broker.offsets.topics_of(group) if is_blank(topic) else [topic]
    return ok_json(consume_stats(broker, group, consumed_topics(broker, group, topics)))
