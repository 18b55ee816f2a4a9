"""Connections in the lists of members, as JSON values (Connection, ProducerInfo)."""

from __future__ import annotations

from typing import Any

from .channel import Channel
from .members import Member


def connection_to_wire(channel: Channel, member: Member) -> dict[str, Any]:
    """Return a member as an entry in a list of connections."""
    return {
        "clientAddr": channel.address, "clientId": member.client_id, "language": member.language,
        "version": member.version,
    }  # fmt: skip


def producer_to_wire(channel: Channel, member: Member) -> dict[str, Any]:
    """Return a member as an entry in the list of all producers."""
    return {
        "clientId": member.client_id, "language": member.language, "lastUpdateTimestamp": member.heard_at_ms,
        "remoteIP": f"/{channel.address}", "version": member.version,
    }  # fmt: skip
