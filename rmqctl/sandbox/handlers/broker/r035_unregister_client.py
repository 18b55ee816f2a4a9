"""UNREGISTER_CLIENT: a client leaves its groups (ClientManageProcessor.unregisterClient)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, ok


def handle(broker: Broker, request: Request) -> Command:
    """Remove this connection from the named groups; the client id is ignored."""
    producer_group, consumer_group = request.text("producerGroup", None), request.text("consumerGroup", None)
    if producer_group is not None:
        broker.producers.unregister(producer_group, request.channel)
    if consumer_group is not None:
        # As with every read of a group's configuration, the group is created.
        broker.groups.find_or_create(consumer_group)
        broker.consumers.unregister(consumer_group, request.channel)
    return ok()
