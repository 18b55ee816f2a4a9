"""UPDATE_AND_CREATE_TOPIC_LIST: create or change several topics (AdminBrokerProcessor.updateAndCreateTopicList)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import UNSET_REMARK, Request, ok
from rmqctl.sandbox.topic_changes import read_listed_topic, update_topics

SERVER = BROKER
SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Apply all; none when one name is invalid, and none when one topic is already as requested."""
    request.require_body()
    update_topics(broker, [read_listed_topic(item) for item in request.json()["topicConfigList"]])
    return ok(remark=UNSET_REMARK)
