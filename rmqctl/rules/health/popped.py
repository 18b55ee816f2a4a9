"""Whether members still pop from a queue with unread messages, by two samples. Pure.

A pop moves the stored offset of its queue at once. Members pop from all queues of a topic at a broker in turn, unless
the broker assigns single queues to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from rmqctl.model.group import RunningInfo
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.flow_control import may_pop
from rmqctl.rules.member_settings import member_settings, pops_from, shared_queue

from .idle import PULL_OVERDUE_MS
from .positions import Position, PositionPair


class Pops(StrEnum):
    """What the members that pop from a queue do."""

    POPPING = "POPPING"  # a queue that they pop moved, or they process as many popped messages as they may have
    STOPPED = "STOPPED"  # no queue that they pop moved, although each of them may pop
    UNKNOWN = "UNKNOWN"


def pops_of_all(
    queues: Iterable[MessageQueue], watched: Mapping[MessageQueue, PositionPair],
    firsts: Mapping[MessageQueue, Mapping[str, RunningInfo]], last: Mapping[str, RunningInfo],
) -> dict[MessageQueue, Pops]:  # fmt: skip
    """Return what pops_of() returns for each queue; those that are popped together are judged once.

    `firsts` are the members' reports of the look that each queue is compared with.
    """
    popped = {mq for info in last.values() for mq in info.pop_unacked}
    known: dict[tuple[MessageQueue, int], Pops] = {}
    found = {}
    for mq in queues:
        shared = shared_queue(mq)
        key = (shared if shared in popped and mq not in popped else mq), id(firsts[mq])
        if key not in known:
            known[key] = pops_of(mq, watched, firsts[mq], last)
        found[mq] = known[key]
    return found


def pops_of(
    mq: MessageQueue, watched: Mapping[MessageQueue, PositionPair], first: Mapping[str, RunningInfo],
    last: Mapping[str, RunningInfo],
) -> Pops:  # fmt: skip
    """Return what members do that pop from a queue that no member holds; `first` and `last` are their reports by id.

    `watched` are such queues of the group, the queue itself among them.
    """
    popping = {client_id: info for client_id, info in last.items() if pops_from(info, mq)}
    shared, together = shared_queue(mq), [watched[mq]]
    if any(shared in info.pop_unacked for info in popping.values()):
        together = [each for other, each in watched.items() if shared_queue(other) == shared]
    if any(each.first.consumer_offset != each.last.consumer_offset for each in together):
        return Pops.POPPING
    before = {client_id: first[client_id] for client_id in popping if client_id in first}
    if not popping or any(not _is_same(before.get(name), info, mq) for name, info in popping.items()):
        return Pops.UNKNOWN
    full = [name for name, info in popping.items() if not (may_pop(info, mq) and may_pop(before[name], mq))]
    if not full:
        return Pops.STOPPED
    is_consuming = any(
        status.consume_ok_tps > 0 or status.consume_failed_tps > 0
        for name in full
        if (status := popping[name].statuses.get(mq.topic)) is not None
    )
    return Pops.POPPING if is_consuming else Pops.UNKNOWN


def is_pop_overdue(pops: Pops, watched: PositionPair) -> bool | None:
    """Return whether a queue has had unread messages for longer than a member that pops leaves them.

    None where that is unknown so far.
    """
    if pops is Pops.POPPING or not _is_behind(watched.first) or not _is_behind(watched.last):
        return False
    return True if pops is Pops.STOPPED and watched.for_ms > PULL_OVERDUE_MS else None


def _is_behind(position: Position) -> bool:
    return position.behind is None or position.behind > 0


def _is_same(before: RunningInfo | None, now: RunningInfo, mq: MessageQueue) -> bool:
    """Return whether it is the same process, and popped from the queue before."""
    started = member_settings(now).started_at_ms
    return before is not None and pops_from(before, mq) and member_settings(before).started_at_ms == started
