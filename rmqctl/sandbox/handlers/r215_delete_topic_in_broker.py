"""DELETE_TOPIC_IN_BROKER: delete a topic with its messages (AdminBrokerProcessor.deleteTopic)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.name_rules import check_no_system_topic, check_topic_name
from rmqctl.sandbox.request import Request, ok
from rmqctl.sandbox.topic_changes import delete_topic

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Delete it; a missing topic is not an error. The name server keeps it until its own request."""
    topic = request.text("topic", "")
    if not topic.strip() or not broker.profile.is_5:
        check_topic_name(broker.profile, topic)
    check_no_system_topic(broker.profile, topic, broker.topics.system_names)
    delete_topic(broker, topic)
    return ok()
