"""UPDATE_AND_CREATE_TOPIC: create or change one topic (AdminBrokerProcessor.updateAndCreateTopic)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import UNSET_REMARK, Request, ok
from rmqctl.sandbox.topic_changes import read_topic, update_topic

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Check the name, then accept any numbers of queues and permissions."""
    update_topic(broker, read_topic(request, is_5=broker.profile.is_5))
    return ok(remark=UNSET_REMARK)
