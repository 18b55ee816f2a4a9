"""GET_ALL_PRODUCER_INFO: the members of all producer groups (AdminBrokerProcessor.getAllProducerInfo)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.connections import producer_to_wire
from rmqctl.sandbox.handlers import BROKER
from rmqctl.sandbox.request import Request, ok_json

SERVER = BROKER


def handle(broker: Broker, _: Request) -> Command:
    """Return the table."""
    return ok_json({
        "data": {
            group: [producer_to_wire(channel, member) for channel, member in members.items()]
            for group, members in broker.producers.groups.items()
        }
    })  # fmt: skip
