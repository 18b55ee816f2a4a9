"""Which way past stuck messages costs least: past the first one, or past all that its client has pulled."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from rmqctl.model.group import ProcessQueue
from rmqctl.model.plan import Cleaning
from rmqctl.model.queue import MessageQueue

from .stuck_queues import Watched

# More is not sent back at once: who has so many messages in hand is better off with a restart.
MOST_SENT_BACK = 1_000


class Past(StrEnum):
    """HEAD: the first message alone. IN_HAND: everything that the client has in hand is sent back."""

    HEAD = "HEAD"
    IN_HAND = "IN_HAND"


class CleanWay(Struct, frozen=True):
    """One way: the offset to go to, and the messages that are sent back before.

    `is_exact`: the client has all of `offsets` in hand; otherwise some of them may be done. `duplicates_max` are
    messages that are done, or in the listener, and are delivered once more, at most.
    """

    past: Past
    target: int
    offsets: tuple[int, ...]
    is_exact: bool
    duplicates_max: int


def find_ways(
    watched: Watched, duplicate_risk: int | None, busy_count: int | None, *, goes_on: bool = False
) -> tuple[CleanWay, ...]:
    """Return the ways past a head that rests in the hands of one client, the cheapest first.

    What costs are messages that are consumed twice, then requests. Everything below the offset up to which the client
    had pulled at the first look has reached it by the last one: it is done, or in hand. So the client may be sent there
    when what it has in hand is sent back. `duplicate_risk` are messages that are done and not committed, at most;
    `busy_count` are threads in the listener. None is not known. `goes_on`: the client learns of the new offset only
    when it pulls, and first consumes what it has in hand.
    """
    held = watched.last.held
    head = None if held is None else held.head_offset
    if held is None or head is None:
        return ()
    in_hand_count = held.in_hand_count
    done_max = max(0, (watched.last.max_offset or head) - head - 1) if duplicate_risk is None else duplicate_risk
    listening_max = in_hand_count if goes_on else min(in_hand_count, max(1, busy_count or 0))
    ways = [CleanWay(Past.HEAD, head + 1, (head,), True, done_max + listening_max)]
    pulled_to = _pulled_to(watched)
    if pulled_to is not None and pulled_to > head + 1 and not watched.is_orderly:
        offsets, is_exact = _in_hand(held, head)
        sent = tuple(offset for offset in offsets if offset < pulled_to)
        done_below_min = max(0, pulled_to - head - (len(sent) if is_exact else in_hand_count))
        done_sent_max = 0 if is_exact else max(0, len(sent) - 1)
        beyond_max = max(0, done_max - done_below_min)
        if len(sent) <= MOST_SENT_BACK:
            duplicates_max = done_sent_max + beyond_max + listening_max
            ways.append(CleanWay(Past.IN_HAND, pulled_to, sent, is_exact, duplicates_max))
    return tuple(sorted(ways, key=lambda way: (way.duplicates_max + len(way.offsets), len(way.offsets))))


def why_gone_on(mq: MessageQueue, cleaning: Cleaning, held: ProcessQueue | None) -> str | None:
    """Return why a plan's messages are not in the same hands any more, as a sentence; None where they are.

    `held` is what the client has of the queue now. One that took the queue anew has been given again what it had done:
    to go past that would lose it.
    """
    client_id = cleaning.client_id
    if held is None or held.dropped:
        return f"{client_id} no longer holds {mq}."
    if held.head_offset != cleaning.head_offset:
        return f"{client_id} no longer has offset {cleaning.head_offset} of {mq} in hand: it went on."
    if cleaning.taken_at_ms is not None and held.locked_at_ms != cleaning.taken_at_ms:
        return f"{client_id} has taken {mq} anew."
    return None


def _in_hand(held: ProcessQueue, head: int) -> tuple[range | tuple[int, ...], bool]:
    """Return the offsets that a client has in hand, or those among which they are.

    It tells how many there are, the first and the last. A last one that is another than at the first look is not stuck;
    it is in hand all the same.
    """
    last = max(head, held.cached_max_offset if held.cached_count else head)
    if held.in_hand_count == 1:
        return (head,), True
    if held.in_hand_count == 2:
        return (head, last), True
    between = range(head, last + 1)
    return between, len(between) == held.in_hand_count


def _pulled_to(watched: Watched) -> int | None:
    """Return the offset up to which the client had pulled at the first look, None where that is not known.

    A client that does not tell since when it holds the queue may have taken it anew in between, and have again what it
    had done. The broker's own note (5.x) goes back when an answer got lost and is asked for again.
    """
    first, last = watched.first, watched.last
    if first.held is None or last.held is None or last.held.locked_at_ms is None:
        return None
    told = [first.held.cached_max_offset + 1] if first.held.cached_count else []
    if first.pull_offset is not None and last.pull_offset is not None and first.pull_offset <= last.pull_offset:
        told.append(first.pull_offset)
    return max(told, default=None)
