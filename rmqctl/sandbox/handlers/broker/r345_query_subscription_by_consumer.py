"""QUERY_SUBSCRIPTION_BY_CONSUMER: a live subscription (AdminBrokerProcessor.querySubscriptionByConsumer)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok_json

SINCE_5 = True


def handle(broker: Broker, request: Request) -> Command:
    """Return a group's subscription to a topic, or none without online members and recent pulls."""
    group, topic = request.text("group"), request.text("topic")
    found = broker.consumers.find_subscription(group, topic)
    wire = None if found is None else found.to_wire()
    return ok_json({"group": group, "topic": topic, "subscriptionData": wire})
