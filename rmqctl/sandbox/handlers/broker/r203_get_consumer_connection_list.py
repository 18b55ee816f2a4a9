"""GET_CONSUMER_CONNECTION_LIST: a group's members and their subscriptions (AdminBrokerProcessor)."""

from __future__ import annotations

from typing import Any

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.channel import Channel
from rmqctl.sandbox.groups.members import MemberChannel
from rmqctl.sandbox.request import RefusalError, Request, ok_json


def handle(broker: Broker, request: Request) -> Command:
    """Return every connection, and the group's properties from the latest heartbeat."""
    name = request.text("consumerGroup")
    group = broker.consumers.find(name)
    if group is None:
        raise RefusalError(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    return ok_json({
        "connectionSet": [connection_to_wire(channel, member) for channel, member in group.members.items()],
        "consumeFromWhere": group.consume_from_where, "consumeType": group.consume_type,
        "messageModel": group.message_model,
        "subscriptionTable": {topic: each.to_wire() for topic, each in group.subscriptions.items()},
    })  # fmt: skip


def connection_to_wire(channel: Channel, member: MemberChannel) -> dict[str, Any]:
    """Return a member as an entry in a list of connections."""
    return {
        "clientAddr": channel.address, "clientId": member.client_id, "language": member.language,
        "version": member.version,
    }  # fmt: skip
