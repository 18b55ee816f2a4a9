"""GET_PRODUCER_CONNECTION_LIST: a producer group's members (AdminBrokerProcessor)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import RefusalError, Request, ok_json

from .r203_get_consumer_connection_list import connection_to_wire


def handle(broker: Broker, request: Request) -> Command:
    """Return every connection."""
    group = request.text("producerGroup")
    members = broker.producers.groups.get(group)
    if members is None:
        raise RefusalError(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
    return ok_json({"connectionSet": [connection_to_wire(channel, member) for channel, member in members.items()]})
