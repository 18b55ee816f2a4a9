"""GET_SYSTEM_TOPIC_LIST_FROM_BROKER: the names of system topics (TopicValidator.getSystemTopicSet)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json


def handle(broker: Broker, _: Request) -> Command:
    """Return them, including names of topics that do not exist."""
    return ok_json({"topicList": sorted(broker.topics.system_names)})
