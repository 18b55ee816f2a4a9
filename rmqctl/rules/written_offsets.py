"""Offsets that were written for a group, and what is known of whether the group resumes from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from rmqctl.model.group import GO, GroupConnections
from rmqctl.model.plan import ListenerBlock, Route
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import QueueSample
from rmqctl.text.words import listed

# A client pauses for 10 s at a push (MQClientInstance.resetOffset). A second push for another topic or broker waits for
# the first; up to 16 s between the two were measured.
PUSH_S = 10.5
NEXT_PUSH_S = 16.5
# A pull from before a push, held by the broker for up to 20 s, can still raise the client's position to the end of the
# queue (correctTagsOffset), which the client commits within 5 s: so much later than it moves.
HELD_MORE_S = 15.5
# Why no member holds a queue. Any other reason means that a member which did not answer may hold it.
_FREE = (Unknown.NOT_ASSIGNED, Unknown.NO_MEMBERS)


class ResetOutcome(StrEnum):
    """The result of a reset.

    CONFIRMED: the group resumes from the target. PENDING: the target is stored or sent to the clients, but no client
    has resumed from there yet. LOST: the group continues from another offset. UNKNOWN: the result cannot be determined.
    """

    CONFIRMED = "CONFIRMED"
    PENDING = "PENDING"
    LOST = "LOST"
    UNKNOWN = "UNKNOWN"


class WriteVerdict(Struct, frozen=True):
    """The result for one queue, and a short reason. `is_final`: waiting longer would not change it."""

    outcome: ResetOutcome
    reason: str
    is_final: bool = False


class WrittenOffset(NamedTuple):
    """One offset that was written; `before` is the offset stored just before, None when none was stored.

    `blocked_by` is why its holder, the client `blocker`, may consume nothing although it moves: that it has moved is
    then no proof that the group continues from there. `is_unanswered`: its broker may still store it. `position` is
    where the member that held the queue was just before: up to 5 s ahead of what was stored. None is unknown.
    """

    mq: MessageQueue
    route: Route
    before: int | None
    target: int
    blocked_by: ListenerBlock | None = None
    blocker: str | None = None
    is_unanswered: bool = False
    position: int | None = None


def must_consume(written: WrittenOffset, max_offset: int | None) -> bool:
    """Tell whether only a consumed message proves that the group continues from the target.

    Without a message to consume, a client that may be blocked is believed; one that is blocked is not.
    """
    if written.blocked_by is ListenerBlock.UNKNOWN:
        return max_offset is None or max_offset > written.target
    return written.blocked_by is not None


def still_blocked(client_id: str, target: int, stored: int | None) -> str:
    """Return why a queue whose holder has moved is not confirmed, and what to do."""
    said = f"{client_id} moved there, but consumes nothing until its listener returns"
    if stored is None or stored <= target:
        return f"{said}: restart it"
    # The next member would start from there.
    return f"{said}, and {stored} is stored: stop it, and reset the queue to {target} before the next start"


def forgetful_members(connected: Iterable[GroupConnections]) -> frozenset[str]:
    """Return the members that can forget an offset that they were reset to: what they report may be the stored one.

    When the Go client commits the offset of one queue that it gives up, it forgets those of all others
    (remoteBrokerOffsetStore.persist): of several queues that are reset at the same time, some resume from the old one.
    """
    members = (member for found in connected for member in found.members)
    return frozenset(member.client_id for member in members if member.language == GO)


def is_free(queue: QueueSample | QueueProgress) -> bool:
    """Tell whether no member holds a queue: all members answered, and none reports it."""
    return queue.reasons.get("clientId") in _FREE


def describe_unheld(queue: QueueSample, silent_ids: Collection[str]) -> str:
    """Return why it is not known who holds a queue, and what to do about members that did not answer."""
    reason = queue.reasons.get("clientId")
    if reason is not None and silent_ids:
        # Killed, it commits nothing more, and the next member starts from what is stored.
        kill = "kill it if it hangs" if len(silent_ids) == 1 else "kill those that hang"
        return f"{listed(silent_ids)} did not report, and may hold the queue: {kill}"
    if reason is None:
        return "members are rebalancing"  # several hold it, or one is giving it up
    return "no member holds the queue" if reason in _FREE else f"it is unknown who holds the queue ({reason})"


def push_quiet_s(written: Collection[WrittenOffset]) -> float:
    """Return how long clients may pause, in s: each broker pushes for each topic; 0 where nothing is pushed."""
    pushed = {(each.mq.topic, each.mq.broker_name) for each in written if each.route is Route.CLIENT_PUSH}
    return PUSH_S + NEXT_PUSH_S * (len(pushed) - 1) if pushed else 0.0


def is_on_side(written: WrittenOffset, offset: int) -> bool:
    """Tell whether an offset shows that a client moved to the target, and perhaps continued from there.

    The member continues from its position, a new one from what was stored. Where neither is known, and where the target
    is between both, only the target itself shows it.
    """
    before = [each for each in (written.before, written.position) if each is not None]
    if offset == written.target or not before:
        return offset == written.target
    return offset > written.target and (written.target > max(before) or offset < min(before))
