"""Protection mode: which clients count as members at a rebalance, so that flapping clients do not move queues.

RocketMQ has no such mode: every client that a broker names counts immediately, so each join and leave moves queues. The
runtime and what-if both decide by these functions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from .allocate import sort_client_ids


class Presence(Struct, frozen=True):
    """The members that one client sees: since when without a break, epoch ms; None for longer than it has looked."""

    since_ms: Mapping[str, int | None]


def look(before: Presence | None, client_ids: Collection[str], now_ms: int, *, own_id: str | None = None) -> Presence:
    """Return the presence after a look. A client that was missing once starts its time from zero.

    At the first look (`before` None) the other clients count as present before, and `own_id` as just joined.
    """
    if before is None:
        return Presence({client_id: now_ms if client_id == own_id else None for client_id in client_ids})
    return Presence({client_id: before.since_ms.get(client_id, now_ms) for client_id in client_ids})


def counted_clients(presence: Presence, now_ms: int, protection_ms: int) -> list[str]:
    """Return the ids of the clients that count, sorted: those present for long enough.

    If no client has been, those that joined first count: queues without an owner would be worse, and clients that join
    later see the first ones as settled. When all clients join at the same time, each considers the others settled, so
    no client consumes until their time is over.
    """
    ids = sort_client_ids(presence.since_ms)
    settled = [client_id for client_id in ids if _is_settled(presence.since_ms[client_id], now_ms, protection_ms)]
    if settled or not ids:
        return settled
    first_ms = min(since_ms for since_ms in presence.since_ms.values() if since_ms is not None)
    return [client_id for client_id in ids if presence.since_ms[client_id] == first_ms]


def next_change_ms(presence: Presence, now_ms: int, protection_ms: int) -> int | None:
    """Return when the next client starts to count, epoch ms; None while no client waits."""
    waiting = [
        since_ms + protection_ms
        for since_ms in presence.since_ms.values()
        if since_ms is not None and since_ms + protection_ms > now_ms
    ]
    return min(waiting, default=None)


def _is_settled(since_ms: int | None, now_ms: int, protection_ms: int) -> bool:
    return since_ms is None or now_ms - since_ms >= protection_ms
