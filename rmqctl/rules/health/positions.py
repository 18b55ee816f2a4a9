"""A queue of a group in two samples, by its broker and by the member that holds it, and what happened between. Pure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from rmqctl.model.group import ProcessQueueInfo


class Motion(StrEnum):
    """What happened to a queue between two samples."""

    DONE = "DONE"  # no messages are unread
    MOVES = "MOVES"  # the group advanced
    RESTS = "RESTS"  # the same message is in flight
    IDLES = "IDLES"  # a member holds it but processes and pulls nothing, although messages are unread
    UNHELD = "UNHELD"  # messages are unread, and no member reports that it holds the queue
    UNKNOWN = "UNKNOWN"  # its holder did not answer at the first sample, or its end could not be read then


class Position(Struct, frozen=True):
    """A queue in one sample: as the broker stores it, and as the member that holds it reports it; None is unknown.

    `is_heard`: the member answered. So without `held` it did not hold the queue.
    """

    consumer_offset: int | None
    max_offset: int | None
    held: ProcessQueueInfo | None = None
    min_offset: int | None = None
    pull_offset: int | None = None
    is_heard: bool = True

    @property
    def commit_offset(self) -> int | None:
        """The position of the member that holds the queue."""
        return None if self.held is None else self.held.commit_offset

    @property
    def next_offset(self) -> int | None:
        """The offset up to which all messages are consumed: the member's own, which it commits within 5 s."""
        reported = (self.consumer_offset, None if self.held is None else self.held.position)
        return max((offset for offset in reported if offset is not None), default=None)

    @property
    def is_delivered(self) -> bool:
        """Whether the broker has answered pulls up to the end (5.x), whatever is committed."""
        pulled, end = self.pull_offset, self.max_offset
        return pulled is not None and end is not None and pulled >= end

    @property
    def behind(self) -> int | None:
        """The number of messages from `next_offset` to the end; 0 in an empty queue, wherever a consumer starts."""
        offset = self.next_offset
        if offset is None and self.min_offset == self.max_offset:
            offset = self.max_offset
        return None if offset is None or self.max_offset is None else max(0, self.max_offset - offset)


class PositionPair(Struct, frozen=True):
    """Two samples of one queue and one holder, and the ms between them; `is_orderly` None: unknown."""

    first: Position
    last: Position
    for_ms: int
    is_orderly: bool | None = None

    @property
    def motion(self) -> Motion:
        """What happened to the queue. When its end is unknown, messages count as unread."""
        first, last = self.first, self.last
        head = None if last.held is None else last.held.head_offset
        if head is None and last.behind == 0:
            return Motion.DONE
        if last.held is None:
            return Motion.MOVES if self.has_committed else Motion.UNHELD
        if not first.is_heard:
            return Motion.MOVES if self.has_committed else Motion.UNKNOWN
        if head is not None:
            is_same = first.held is not None and first.held.head_offset == head and not self._is_taken_again
            return Motion.RESTS if is_same else Motion.MOVES
        if first.held is None or first.held.head_offset is not None or self.advance:
            return Motion.MOVES
        if first.behind is None and last.behind is not None:
            return Motion.UNKNOWN
        # Messages that have just arrived may be in transit.
        return Motion.MOVES if first.behind == 0 else Motion.IDLES

    @property
    def has_committed(self) -> bool:
        """Whether the stored offset moved forward; not by a reset past the messages that its holder has in flight."""
        before, after = self.first.consumer_offset, self.last.consumer_offset
        head = None if self.last.held is None else self.last.held.head_offset
        return before is not None and after is not None and before < after and (head is None or after <= head)

    @property
    def is_new(self) -> bool:
        """Whether the first sample does not show the queue at the member that holds it at the last one."""
        return self.last.held is not None and (self.first.held is None or self._is_taken_again)

    @property
    def rest_ms(self) -> int:
        """The least time for which the same message was watched in flight."""
        return self.for_ms if self.motion is Motion.RESTS else 0

    @property
    def advance(self) -> int | None:
        """How many offsets the group advanced; below 0 after a reset, None when unknown."""
        if self.first.next_offset is None or self.last.next_offset is None:
            return None
        return self.last.next_offset - self.first.next_offset

    @property
    def _is_taken_again(self) -> bool:
        """Whether the member released the queue in between; never for orderly members, which keep renewing locks."""
        first, last = self.first.held, self.last.held
        if first is None or last is None or self.is_orderly is not False:
            return False
        return first.locked_at_ms != last.locked_at_ms
