"""QUERY_TOPIC_CONSUME_BY_WHO: the groups of a topic (AdminBrokerProcessor.queryTopicConsumeByWho)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json


def handle(broker: Broker, request: Request) -> Command:
    """Return the groups that are online with the topic, and those that have offsets of it."""
    topic = request.text("topic") if broker.profile.is_5 else request.text("topic", "")
    online = {name for name, group in broker.consumers.groups.items() if topic in group.subscriptions}
    return ok_json({"groupList": online | set(broker.offsets.groups_of(topic))})
