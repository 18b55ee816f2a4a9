"""UNREGISTER_CLIENT: a client leaves its groups (ClientManageProcessor.unregisterClient)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok

SERVER = BROKER


def handle(broker: Broker, request: Request) -> Command:
    """Take this connection out of the groups that are named, whatever client id is given."""
    producer_group, consumer_group = request.text("producerGroup", None), request.text("consumerGroup", None)
    if producer_group is not None:
        broker.producers.unregister(producer_group, request.channel)
    if consumer_group is not None:
        # As with every look at a group's configuration, it is made.
        broker.groups.find_or_create(consumer_group, may_create=broker.settings.flag("autoCreateSubscriptionGroup"))
        broker.consumers.unregister(consumer_group, request.channel)
    return ok()
