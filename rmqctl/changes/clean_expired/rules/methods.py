"""Which method to get past stuck messages costs least: skip the first one, or everything that its client has pulled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.group import ProcessQueueInfo
from rmqctl.model.plan import CleanStep, PlanItem
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health.positions import PositionPair

# The most messages sent back in one go: a client with more in flight is better restarted.
MOST_SENT_BACK = 1_000


class CleanScope(StrEnum):
    """HEAD: only the first message is sent back. IN_HAND: everything that the client is processing is sent back."""

    HEAD = "HEAD"
    IN_HAND = "IN_HAND"


class CleanMethod(Struct, frozen=True):
    """One method: the offset to move to, and the messages that are sent back first.

    `is_exact`: all of `offsets` are in flight at the client; otherwise some may be consumed already. `done_max` is the
    largest number of messages that are consumed and would be redelivered. Of the `in_hand_count` messages in flight, at
    most `listening_max` are in the listener, the head first. `dead` are offsets whose copies become dead letters.
    """

    scope: CleanScope
    target: int
    offsets: tuple[int, ...]
    is_exact: bool
    done_max: int = 0
    in_hand_count: int = 0
    listening_max: int = 0
    dead: frozenset[int] = frozenset()

    @property
    def duplicates_max(self) -> int:
        """The largest number of messages that are consumed twice: no dead letter is redelivered to the group."""
        dead = self.dead.intersection(self.offsets)
        is_head_dead = self.offsets[0] in dead
        # Which of several messages are in flight, and which are consumed, is unknown unless the method is exact.
        done_max = self.done_max if self.is_exact else self.done_max - len(dead) + is_head_dead
        in_hand_max = self.in_hand_count - (len(dead) if self.is_exact else is_head_dead)
        return max(0, done_max) + max(0, min(in_hand_max, self.listening_max - is_head_dead))

    @property
    def waiting_max(self) -> int:
        """The largest number of messages that wait in the client for the listener to return."""
        return max(0, self.in_hand_count - self.listening_max)


def becomes_dead(reconsume_times: int, max_reconsume_times: int, delay_level: int) -> bool:
    """Tell whether a broker makes a dead letter of a message that is sent back (consumerSendMsgBack)."""
    return delay_level < 0 or reconsume_times >= max_reconsume_times


def mark_dead(
    methods: Iterable[CleanMethod], reconsume_times: Mapping[int, int], max_reconsume_times: int, delay_level: int
) -> tuple[CleanMethod, ...]:
    """Return methods with what becomes dead letters; a message that was not read counts as one without retries."""
    return tuple(
        replace(
            method,
            dead=frozenset(
                offset
                for offset in method.offsets
                if becomes_dead(reconsume_times.get(offset, 0), max_reconsume_times, delay_level)
            ),
        )
        for method in methods
    )


def are_dead(items: Iterable[PlanItem]) -> Counter[bool]:
    """Count the messages that items send back, by whether they become dead letters."""
    return Counter(
        becomes_dead(message.reconsume_times, item.cleaning.max_reconsume_times, item.cleaning.delay_level)
        for item in items
        if item.cleaning is not None
        for message in item.cleaning.messages
    )


def finished_words(are_dead: Collection[bool]) -> str:
    """Return what becomes of sent messages that the listener still finishes; `are_dead`: which become dead letters."""
    words = ["consumed twice"] if False in are_dead else []
    return " or ".join([*words, "consumed and a dead letter"] if True in are_dead else words)


def find_methods(
    watched: PositionPair, duplicate_risk: int | None, listening_max: int | None, *, goes_on: bool = False
) -> tuple[CleanMethod, ...]:
    """Return the methods for a head that is stuck at one client, the cheapest first.

    The cost is the number of messages consumed twice, then the number of requests. By the last sample, everything below
    the offset that the client had pulled to at the first sample has reached it: it is consumed, or in flight. So the
    client can be moved there once its messages in flight are sent back. `duplicate_risk` is the largest number of
    messages that are consumed but not committed, `listening_max` that of messages in the listener; None means unknown.
    `goes_on`: the client learns of the new offset only when it pulls, and first consumes what is in flight.
    """
    held = watched.last.held
    head = None if held is None else held.head_offset
    if held is None or head is None:
        return ()
    in_hand_count = held.in_hand_count
    # What is in flight is not consumed; the client may have pulled more since the end of the queue was read.
    end = max(watched.last.max_offset or head, held.cached_max_offset + 1)
    done_max = max(0, end - head - in_hand_count) if duplicate_risk is None else duplicate_risk
    listening_max = in_hand_count if goes_on or listening_max is None else max(1, listening_max)
    methods = [CleanMethod(CleanScope.HEAD, head + 1, (head,), True, done_max, in_hand_count, listening_max)]
    pulled_to = _pulled_to(watched)
    if pulled_to is not None and pulled_to > head + 1 and not watched.is_orderly:
        offsets, is_exact = _in_hand(held, head)
        sent = tuple(offset for offset in offsets if offset < pulled_to)
        done_below_min = max(0, pulled_to - head - (len(sent) if is_exact else in_hand_count))
        done_sent_max = 0 if is_exact else max(0, len(sent) - 1)
        beyond_max = max(0, done_max - done_below_min)
        if len(sent) <= MOST_SENT_BACK:
            methods.append(
                CleanMethod(
                    CleanScope.IN_HAND, pulled_to, sent, is_exact, done_sent_max + beyond_max, in_hand_count,
                    listening_max,
                )
            )  # fmt: skip
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
