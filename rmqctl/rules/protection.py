"""Protection mode: which clients count as members at a rebalance, so that flapping clients do not move queues.

RocketMQ has no such mode: every client that a broker names counts immediately, so each join and leave moves queues. The
runtime and what-if both decide by these functions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from .allocate import sort_client_ids


class Presence(Struct, frozen=True):
    """The members that one client lists. `since_ms`: when those joined that have joined while it looked, epoch ms."""

    client_ids: frozenset[str]
    since_ms: Mapping[str, int] = {}


def look(
    before: Presence | None,
    client_ids: Collection[str],
    now_ms: int,
    *,
    own_id: str | None = None,
    joined_ms: int | None = None,
) -> Presence:
    """Return the presence after a look. A client that was missing once starts its time from zero.

    At the first look (`before` None) the other clients count as present before, and `own_id` as just joined. At later
    ones, new clients have joined at `joined_ms`, or now: see since_notified_ms().
    """
    ids = frozenset(client_ids)
    if before is None:
        return Presence(ids, {own_id: now_ms} if own_id is not None and own_id in ids else {})
    if ids is before.client_ids or ids == before.client_ids:
        return before
    since_ms = {client_id: at_ms for client_id, at_ms in before.since_ms.items() if client_id in ids}
    return Presence(ids, since_ms | dict.fromkeys(ids - before.client_ids, now_ms if joined_ms is None else joined_ms))


def since_notified_ms(notified_ms: int | None, now_ms: int, pause_ms: int) -> int | None:
    """Return when clients joined that a look at `now_ms` finds, after a broker's first notification since the last one.

    A member pauses for `pause_ms` between two looks. If it counted the time of others from its look, they would start
    to count earlier by themselves, and queues would have two owners meanwhile. A look that comes still later has other
    reasons, and the notification may be about another client.
    """
    return None if notified_ms is None else max(notified_ms, now_ms - pause_ms)


def waiting_clients(presence: Presence, now_ms: int, protection_ms: int) -> frozenset[str]:
    """Return the clients that have not been present for long enough."""
    return frozenset(
        client_id for client_id, since_ms in presence.since_ms.items() if now_ms - since_ms < protection_ms
    )


def counted_clients(presence: Presence, now_ms: int, protection_ms: int) -> list[str]:
    """Return the ids of the clients that count, sorted: those present for long enough.

    If no client has been, those that joined first count: queues without an owner would be worse, and clients that join
    later see the first ones as settled. When all clients join at the same time, each considers the others settled, so
    no client consumes until their time is over.
    """
    counted = presence.client_ids - waiting_clients(presence, now_ms, protection_ms)
    if not counted and presence.client_ids:
        first_ms = min(presence.since_ms.values())
        counted = frozenset(client_id for client_id, since_ms in presence.since_ms.items() if since_ms == first_ms)
    return sort_client_ids(counted)


def next_change_ms(presence: Presence, now_ms: int, protection_ms: int) -> int | None:
    """Return when the next client starts to count, epoch ms; None while no client waits."""
    ends_ms = [since_ms + protection_ms for since_ms in presence.since_ms.values()]
    return min((end_ms for end_ms in ends_ms if end_ms > now_ms), default=None)
