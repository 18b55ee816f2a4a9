"""Clients that leave and rejoin: which queues move without protection mode, and which with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Assignment, Strategy
from rmqctl.rules.protection import Presence, counted_clients, look, next_change_ms
from rmqctl.text.durations import short_duration

from .group_snapshot import GroupSnapshot, share_all


class MembershipEvent(Struct, frozen=True, order=True):
    """At `at_ms` a client joins or leaves; `origin` is the id that it had at the start, empty for the same."""

    at_ms: int
    client_id: str
    is_there: bool
    origin: str = ""


class Churn(Struct, frozen=True, rename="camel"):
    """The result of a simulation.

    `share_count` is the number of rebalances that moved queues, `move_count` the number of moves, and `twice_count` the
    number of moves from a running owner, which continues to consume until it learns of the move. `most_queues` is the
    most that one client had, `unowned_ms` the sum over queues of ms without an owner, `duration_ms` the time until the
    last change.
    """

    protection_ms: int
    share_count: int
    move_count: int
    twice_count: int
    most_queues: int
    unowned_ms: int
    duration_ms: int


def restarts(
    client_ids: Sequence[str], *, every_ms: int, down_ms: int, times: int, new_ids: bool
) -> list[MembershipEvent]:
    """Return the events when clients stop one after another, one every `every_ms`, in `times` rounds.

    With `new_ids` they rejoin under another id that sorts next to the old one, because most ids contain the process id.
    Raises UsageError when a client would stop again before it is back.
    """
    round_ms = every_ms * len(client_ids)
    if times > 1 and down_ms >= round_ms:
        sentence = f"--down {short_duration(down_ms)}: a client would stop again after {short_duration(round_ms)}"
        raise UsageError(f"{sentence}, before it is back.", hint="Use a longer --every or a shorter --down.")
    events = []
    for index in range(len(client_ids) * times):
        turn, place = divmod(index, len(client_ids))
        client_id = client_ids[place]
        old, new = (f"{client_id}{'~' * turn}", f"{client_id}{'~' * (turn + 1)}") if new_ids else (client_id, client_id)
        at_ms = (index + 1) * every_ms
        events += [
            MembershipEvent(at_ms, old, is_there=False),
            MembershipEvent(at_ms + down_ms, new, is_there=True, origin=client_id if new_ids else ""),
        ]
    return sorted(events)


def simulate(
    snapshot: GroupSnapshot,
    strategy_after: Callable[[Assignment], Strategy],
    events: Sequence[MembershipEvent],
    *,
    protection_ms: int,
) -> Churn:
    """Simulate clients that join and leave; all clients see each change immediately. Raises AllocationError.

    With `protection_ms` 0 every client counts immediately, as in RocketMQ. `strategy_after` receives the present
    shares.
    """
    # A client that a topic's brokers do not know stays unknown to them under another id.
    names: dict[str, set[str]] = {}
    for event in events:
        if event.origin:
            names.setdefault(event.origin, {event.origin}).add(event.client_id)
    snapshot = replace(snapshot, live=None, strangers={
        topic: frozenset(name for client_id in ids for name in names.get(client_id, {client_id}))
        for topic, ids in snapshot.strangers.items()
    })  # fmt: skip
    present = set(snapshot.client_ids)
    presence = look(None, present, 0)
    shares = _share(snapshot, strategy_after, presence, 0, protection_ms, {})
    owners = _owners(shares)
    waiting = sorted(events)
    now_ms = share_count = move_count = twice_count = unowned_ms = last_ms = 0
    most = _most(shares)
    while (next_ms := _next(waiting, presence, now_ms, protection_ms)) is not None:
        unowned_ms += (len(snapshot.queues) - len(owners)) * (next_ms - now_ms)
        now_ms = next_ms
        while waiting and waiting[0].at_ms == now_ms:
            event = waiting.pop(0)
            (present.add if event.is_there else present.discard)(event.client_id)
        presence = look(presence, present, now_ms)
        shares = _share(snapshot, strategy_after, presence, now_ms, protection_ms, shares)
        after = _owners(shares)
        moved = [mq for mq in snapshot.queues if owners.get(mq) != after.get(mq)]
        if moved:
            share_count, last_ms = share_count + 1, now_ms
            move_count += len(moved)
            twice_count += sum(owners.get(mq) in present for mq in moved)
        owners, most = after, max(most, _most(shares))
    return Churn(protection_ms, share_count, move_count, twice_count, most, unowned_ms, last_ms)


def _next(waiting: Sequence[MembershipEvent], presence: Presence, now_ms: int, protection_ms: int) -> int | None:
    settles_ms = next_change_ms(presence, now_ms, protection_ms)
    times = [waiting[0].at_ms] if waiting else []
    return min([*times, *([] if settles_ms is None else [settles_ms])], default=None)


def _share(
    snapshot: GroupSnapshot, strategy_after: Callable[[Assignment], Strategy], presence: Presence, now_ms: int,
    protection_ms: int, shares: Assignment,
) -> Assignment:  # fmt: skip
    counted = counted_clients(presence, now_ms, protection_ms)
    if not counted:
        return {}
    return share_all(replace(snapshot, client_ids=tuple(counted)), strategy_after(shares))


def _owners(shares: Assignment) -> dict[MessageQueue, str]:
    return {mq: client_id for client_id, share in shares.items() for mq in share}


def _most(shares: Assignment) -> int:
    return max((len(share) for share in shares.values()), default=0)
