"""GET_ALL_PRODUCER_INFO: the members of all producer groups (AdminBrokerProcessor.getAllProducerInfo)."""

from __future__ import annotations

from typing import Any

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.channel import Channel
from rmqctl.sandbox.groups.members import MemberChannel
from rmqctl.sandbox.request import Request, ok_json


def handle(broker: Broker, _: Request) -> Command:
    """Return the table."""
    return ok_json({
        "data": {
            group: [_to_wire(channel, member) for channel, member in members.items()]
            for group, members in broker.producers.groups.items()
        }
    })  # fmt: skip


def _to_wire(channel: Channel, member: MemberChannel) -> dict[str, Any]:
    """Return a member as an entry in the list of all producers."""
    return {
        "clientId": member.client_id, "language": member.language, "lastUpdateTimestamp": member.heard_at_ms,
        "remoteIP": f"/{channel.address}", "version": member.version,
    }  # fmt: skip
