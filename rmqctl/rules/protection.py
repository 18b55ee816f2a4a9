"""Protection mode: who counts as a member when queues are shared, so that clients that flap move no queues.

RocketMQ has no such thing: whoever a broker names shares at once, and each coming and going moves queues. The runtime
decides by these functions, and so does what-if.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from .allocate import sort_client_ids


class Presence(Struct, frozen=True):
    """Who is there, as one client has seen it: since when without a break, epoch ms; None for longer than it looked."""

    since_ms: Mapping[str, int | None]


def look(before: Presence | None, client_ids: Collection[str], now_ms: int, *, own_id: str | None = None) -> Presence:
    """Return who is there after a look. Who is missing once has to begin anew.

    At the first look (`before` is None) the others have been there already, and `own_id` has just come.
    """
    if before is None:
        return Presence({client_id: now_ms if client_id == own_id else None for client_id in client_ids})
    return Presence({client_id: before.since_ms.get(client_id, now_ms) for client_id in client_ids})


def counted_clients(presence: Presence, now_ms: int, protection_ms: int) -> list[str]:
    """Return who shares the queues, sorted: those that have been there for long enough.

    Where nobody has, those that came first share: queues without an owner would be worse, and who comes later sees them
    as settled. Of clients that all come at once each takes the others for settled, so that nobody consumes until their
    time is over.
    """
    ids = sort_client_ids(presence.since_ms)
    settled = [client_id for client_id in ids if _is_settled(presence.since_ms[client_id], now_ms, protection_ms)]
    if settled or not ids:
        return settled
    first_ms = min(since_ms for since_ms in presence.since_ms.values() if since_ms is not None)
    return [client_id for client_id in ids if presence.since_ms[client_id] == first_ms]


def next_change_ms(presence: Presence, now_ms: int, protection_ms: int) -> int | None:
    """Return when the next client begins to count, epoch ms; None while nobody waits."""
    waiting = [
        since_ms + protection_ms
        for since_ms in presence.since_ms.values()
        if since_ms is not None and since_ms + protection_ms > now_ms
    ]
    return min(waiting, default=None)


def _is_settled(since_ms: int | None, now_ms: int, protection_ms: int) -> bool:
    return since_ms is None or now_ms - since_ms >= protection_ms
