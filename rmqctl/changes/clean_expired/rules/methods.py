"""Which method to get past stuck messages costs least: skip the first one, or everything that its client has pulled."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from rmqctl.model.group import ProcessQueueInfo
from rmqctl.model.plan import CleanStep
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.stuck_queues import PositionPair

# The most messages sent back in one go: a client with more in flight is better restarted.
MOST_SENT_BACK = 1_000


class CleanScope(StrEnum):
    """HEAD: only the first message is sent back. IN_HAND: everything that the client is processing is sent back."""

    HEAD = "HEAD"
    IN_HAND = "IN_HAND"


class CleanMethod(Struct, frozen=True):
    """One method: the offset to move to, and the messages that are sent back first.

    `is_exact`: all of `offsets` are in flight at the client; otherwise some may be consumed already. `duplicates_max`
    is the largest number of messages that are consumed, or in the listener, and would be redelivered.
    """

    scope: CleanScope
    target: int
    offsets: tuple[int, ...]
    is_exact: bool
    duplicates_max: int


def find_methods(
    watched: PositionPair, duplicate_risk: int | None, busy_count: int | None, *, goes_on: bool = False
) -> tuple[CleanMethod, ...]:
    """Return the methods for a head that is stuck at one client, the cheapest first.

    The cost is the number of messages consumed twice, then the number of requests. By the last sample, everything below
    the offset that the client had pulled to at the first sample has reached it: it is consumed, or in flight. So the
    client can be moved there once its messages in flight are sent back. `duplicate_risk` is the largest number of
    messages that are consumed but not committed, `busy_count` the number of threads in the listener; None means
    unknown. `goes_on`: the client learns of the new offset only when it pulls, and first consumes what is in flight.
    """
    held = watched.last.held
    head = None if held is None else held.head_offset
    if held is None or head is None:
        return ()
    in_hand_count = held.in_hand_count
    done_max = max(0, (watched.last.max_offset or head) - head - 1) if duplicate_risk is None else duplicate_risk
    listening_max = in_hand_count if goes_on else min(in_hand_count, max(1, busy_count or 0))
    methods = [CleanMethod(CleanScope.HEAD, head + 1, (head,), True, done_max + listening_max)]
    pulled_to = _pulled_to(watched)
    if pulled_to is not None and pulled_to > head + 1 and not watched.is_orderly:
        offsets, is_exact = _in_hand(held, head)
        sent = tuple(offset for offset in offsets if offset < pulled_to)
        done_below_min = max(0, pulled_to - head - (len(sent) if is_exact else in_hand_count))
        done_sent_max = 0 if is_exact else max(0, len(sent) - 1)
        beyond_max = max(0, done_max - done_below_min)
        if len(sent) <= MOST_SENT_BACK:
            duplicates_max = done_sent_max + beyond_max + listening_max
            methods.append(CleanMethod(CleanScope.IN_HAND, pulled_to, sent, is_exact, duplicates_max))
    return tuple(sorted(methods, key=lambda method: (method.duplicates_max + len(method.offsets), len(method.offsets))))


def describe_progress(mq: MessageQueue, cleaning: CleanStep, held: ProcessQueueInfo | None) -> str | None:
    """Return a sentence that says why a plan's messages are no longer at the same client; None where they are.

    `held` is the client's process queue now. A client that was assigned the queue again has received messages
    again that it had consumed: moving past them would lose them.
    """
    client_id = cleaning.client_id
    if held is None or held.dropped:
        return f"{client_id} no longer holds {mq}."
    if held.head_offset != cleaning.head_offset:
        return f"{client_id} is no longer processing offset {cleaning.head_offset} of {mq}."
    if cleaning.taken_at_ms is not None and held.locked_at_ms != cleaning.taken_at_ms:
        return f"{client_id} was assigned {mq} again."
    return None


def _in_hand(held: ProcessQueueInfo, head: int) -> tuple[range | tuple[int, ...], bool]:
    """Return the offsets that are in flight at a client, or the range that contains them.

    The client reports their number, the first and the last one. A last one that differs from the first sample's is not
    stuck, but it is in flight as well.
    """
    last = max(head, held.cached_max_offset if held.cached_count else head)
    if held.in_hand_count == 1:
        return (head,), True
    if held.in_hand_count == 2:
        return (head, last), True
    between = range(head, last + 1)
    return between, len(between) == held.in_hand_count


def _pulled_to(watched: PositionPair) -> int | None:
    """Return the offset up to which the client had pulled at the first sample, None where that is unknown.

    A client that does not report since when it holds the queue may have been assigned it again between the samples, and
    so have received consumed messages again. The broker's pull offset (5.x) goes back when a lost answer is requested
    again.
    """
    first, last = watched.first, watched.last
    if first.held is None or last.held is None or last.held.locked_at_ms is None:
        return None
    reported = [first.held.cached_max_offset + 1] if first.held.cached_count else []
    if first.pull_offset is not None and last.pull_offset is not None and first.pull_offset <= last.pull_offset:
        reported.append(first.pull_offset)
    return max(reported, default=None)
