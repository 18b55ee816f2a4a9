"""One sample of a queue, and the order in which samples are judged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from operator import lt

from msgspec import Struct


class Observation(Struct, frozen=True):
    """A queue of a group at one moment; None means unknown.

    `is_none_stored`: the broker reports that no offset is stored, which is more than an unknown offset. `is_held`:
    whether a member held the queue. It is False also when the group had no members, and None when members do not report
    (POP, behind a proxy, or not asked). `last_timestamp_ms` is when the last consumed message was stored (lastTimestamp
    of OffsetWrapper), by the broker's clock; a broker's 0 becomes None.
    """

    at_ms: int
    consumer_offset: int | None
    max_offset: int | None
    min_offset: int | None = None
    is_held: bool | None = None
    last_timestamp_ms: int | None = None
    is_none_stored: bool = False

    @property
    def behind(self) -> int | None:
        """The number of messages from the stored offset to the end of the queue, including those deleted unread.

        This is mqadmin's difference, not our `lag`, which leaves deleted messages out: a group that has stopped must
        not seem to catch up because its broker deletes unread messages. None beyond the end. An empty queue is 0 even
        without a stored offset: wherever a consumer starts, there are no messages for it.
        """
        if self.consumer_offset is None:
            is_empty = self.max_offset is not None and self.min_offset == self.max_offset
            return 0 if self.is_none_stored and is_empty else None
        if self.max_offset is None or self.consumer_offset > self.max_offset:
            return None
        return self.max_offset - self.consumer_offset

    @property
    def is_beyond_max(self) -> bool:
        """Whether the stored offset is past the end: the topic was recreated, messages were lost, or a reset failed."""
        if self.consumer_offset is None or self.max_offset is None:
            return False
        return self.consumer_offset > self.max_offset


def in_order(observations: Collection[Observation]) -> list[Observation]:
    """Return one observation per moment, oldest first, whatever their order is.

    Of several at one moment, only the one that knows more, then the one with the higher offset, counts: offsets grow,
    so two answers in the same ms must not seem to be a step back.
    """
    looks = list(observations)
    times_ms = [look.at_ms for look in looks]
    if all(map(lt, times_ms, times_ms[1:])):
        return looks
    looks.sort(key=_rank)
    return [one for one, other in pairwise(looks) if one.at_ms != other.at_ms] + looks[-1:]


def of_one_log(looks: Sequence[Observation]) -> Sequence[Observation]:
    """Return the observations since the end of the queue last went back, else all; `looks` are in order.

    At that moment the topic was recreated, or its broker lost messages: since then, the same offset is another message.
    """
    start, end = 0, None
    for index, look in enumerate(looks):
        max_offset = look.max_offset
        if max_offset is None:
            continue
        if end is not None and max_offset < end:
            start = index
        end = max_offset
    return looks[start:] if start else looks


def _rank(look: Observation) -> tuple[int | bool, ...]:
    numbers = (look.consumer_offset, look.max_offset, look.min_offset, look.is_held, look.last_timestamp_ms)
    known = tuple(-1 if number is None else number for number in numbers)
    return look.at_ms, look.behind is not None, look.is_none_stored, *known
