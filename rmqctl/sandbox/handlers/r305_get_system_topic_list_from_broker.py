"""GET_SYSTEM_TOPIC_LIST_FROM_BROKER: the names that are the broker's own (TopicValidator.getSystemTopicSet)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok_json

SERVER = BROKER


def handle(broker: Broker, _: Request) -> Command:
    """Answer them, also those of topics that there are not."""
    return ok_json({"topicList": sorted(broker.topics.system_names)})
