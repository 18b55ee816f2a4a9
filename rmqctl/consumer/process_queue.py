"""The pulled messages of one queue that are not done yet, and the offset up to which all messages are done."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from math import inf
from typing import NamedTuple

from msgspec import Struct

from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage

# Behind a stuck message, done messages are removed once there are this many more lists than open messages.
_SPARE_LISTS = 64


class DuplicateRisk(NamedTuple):
    """Done messages that a crash now would redeliver: offsets from first_offset to before end_offset.

    It is measured from the offset in memory. Messages done since the last commit are redelivered too.
    """

    first_offset: int
    end_offset: int
    done_count: int


class UnackedMessages(Struct, frozen=True):
    """Pulled messages of one queue that are not acknowledged, whether the listener got them or not."""

    mq: MessageQueue
    first_offset: int
    count: int


class ProcessQueue:
    """The messages of one queue in flight (ProcessQueue). Thread-safe are `has`, `in_work` and the flags.

    Messages are distinguished by identity, not by offset: where an offset arrives twice, the queue waits for both.
    Await `room` for the next removal. The callers that pull and consume set `last_pull_at_ms` and `last_consume_at_ms`;
    both start with the creation time, as in Java. `last_pull_s` is the same by the monotonic clock. `next_offset` is
    where the next pull starts, `start_offset` where the first one did.

    `is_doubtful`: another member may have consumed it; that is checked before the next pull. `is_on_hold`: also before
    pulled messages are consumed, because this process was stopped. `is_paused`: its messages wait. `is_leaving`: they
    are left to another member. `in_work` are the batches that the listener has or that are being sent back; an orderly
    consumer keeps them when it takes the queue again. `unlock_tries` counts how often they prevented that the queue was
    given up (tryUnlockTimes), since `leaving_since_s`.

    `lock_until_s`: after this monotonic time, an orderly consumer must not consume it; `locked_at_ms` is when its
    broker granted the lock, epoch ms.

    `answered_at_ms` is when a pull was answered, and `end_offset` the end of the queue then; `succeeded_at_ms` is when
    the listener consumed a message. None for never.
    """

    def __init__(
        self, mq: MessageQueue, *, next_offset: int = 0, now_ms: int = 0, now_s: float = 0.0,
        in_work: set[object] | None = None,
    ) -> None:  # fmt: skip
        self.mq = mq
        self.size_bytes = 0
        self.max_offset_put: int | None = None
        self.next_offset = self.start_offset = next_offset
        self.dropped = self.is_doubtful = self.is_on_hold = self.is_paused = self.is_leaving = False
        self.in_work: set[object] = set() if in_work is None else in_work
        self.unlock_tries = 0
        self.leaving_since_s = inf
        self.lock_until_s = inf
        self.locked_at_ms = now_ms
        self.checking = asyncio.Lock()
        # What was not acknowledged when it was dropped.
        self.left: UnackedMessages | None = None
        self.room = asyncio.Event()
        self.taken_at_ms = now_ms
        self.last_pull_at_ms = now_ms
        self.last_pull_s = now_s
        self.last_consume_at_ms = now_ms
        self.answered_at_ms: int | None = None
        self.end_offset: int | None = None
        self.succeeded_at_ms: int | None = None
        # The stored size of each message that is not done, in the order of their offsets.
        self._sizes: dict[StoredMessage, int] = {}
        # The messages of each put(), done or not, and how many were put before; from the first open one on. To search
        # the first one in the dict would walk over everything that was removed from its front.
        self._lists: deque[tuple[int, Sequence[StoredMessage]]] = deque()
        self._put_count = 0
        # The first message that is not done, and the other open ones of its list.
        self._first: StoredMessage | None = None
        self._rest: Iterator[StoredMessage] = iter(())
        self._block_count = 0

    def is_locked(self, now_s: float) -> bool:
        """Return whether it may be consumed at a monotonic time: always, if it needs no lock."""
        return now_s <= self.lock_until_s

    @property
    def count(self) -> int:
        """Number of messages that are not done."""
        return len(self._sizes)

    @property
    def first_offset(self) -> int | None:
        """The smallest offset that is not done."""
        return None if self._first is None else self._first.queue_offset

    @property
    def last_offset(self) -> int | None:
        """The largest offset that is not done."""
        return next(reversed(self._sizes)).queue_offset if self._sizes else None

    @property
    def span(self) -> int:
        """Distance from the first to the last offset that is not done (ProcessQueue.getMaxSpan); 0 for none."""
        first, last = self.first_offset, self.last_offset
        return 0 if first is None or last is None else last - first

    @property
    def is_blocked(self) -> bool:
        """Whether failed messages cannot be sent back to any broker."""
        return self._block_count > 0

    def block(self) -> None:
        """Note that some failed messages cannot be sent back. Call unblock() once for each call."""
        self._block_count += 1

    def unblock(self) -> None:
        """Undo one block()."""
        self._block_count -= 1
        self._wake()

    def has(self, message: StoredMessage) -> bool:
        """Return whether a message is not done yet; its result counts only then."""
        return message in self._sizes

    def put(self, messages: Sequence[StoredMessage]) -> None:
        """Add pulled messages. A dropped queue ignores them."""
        if self.dropped or not messages:
            return
        offsets = [message.queue_offset for message in messages]
        sizes = [message.body_bytes for message in messages]
        is_next = (self.max_offset_put is None or offsets[0] > self.max_offset_put) and offsets == sorted(offsets)
        self._sizes.update(zip(messages, sizes, strict=False))  # equal lengths; a check would cost a tenth of the total
        if not is_next:
            self.max_offset_put = max(offsets if self.max_offset_put is None else [self.max_offset_put, *offsets])
            self._restart()
            return
        self.max_offset_put = offsets[-1]
        self.size_bytes += sum(sizes)
        self._append(tuple(messages))
        if len(self._lists) > 2 * len(self._sizes) + _SPARE_LISTS:
            self._forget_done()

    def remove(self, messages: Sequence[StoredMessage]) -> int | None:
        """Remove done messages; return the offset to commit: the smallest that is left, else the one after the last.

        Messages that are no longer there are ignored. Returns None if nothing was ever put, or the queue was dropped.
        """
        self.size_bytes -= sum(map(self._sizes.pop, messages, repeat(0)))
        if self._first is not None and self._first not in self._sizes:
            self._find_first()
        self._wake()
        if self._first is not None:
            return self._first.queue_offset
        return None if self.dropped or self.max_offset_put is None else self.max_offset_put + 1

    def drop(self) -> None:
        """Give up the queue: it becomes empty, and its offset is no longer committed."""
        self.left = self.unacked()
        self.dropped = True
        self.size_bytes = 0
        self._sizes.clear()
        self._lists.clear()
        self._rest = iter(())
        self._first = None
        self._wake()

    def unacked(self) -> UnackedMessages | None:
        """Return the messages that are not done, or were not when the queue was dropped; None for none."""
        return self.left if self._first is None else UnackedMessages(self.mq, self._first.queue_offset, self.count)

    def duplicate_risk(self) -> DuplicateRisk:
        """Return the messages that a crash now would redeliver; for none, both offsets are the one to commit."""
        if self._first is None:
            position = 0 if self.max_offset_put is None else self.max_offset_put + 1
            return DuplicateRisk(position, position, 0)
        put_before, messages = self._lists[0]
        at = messages.index(self._first)
        count = self._put_count - put_before - at - len(self._sizes)
        if count == 0:
            return DuplicateRisk(self._first.queue_offset, self._first.queue_offset, 0)
        # From the first open one on: everything before it in its list is done.
        lists = [messages[at:], *(messages for _, messages in islice(self._lists, 1, None))]
        first = next(each for messages in lists for each in messages if each not in self._sizes)
        last = next(each for messages in reversed(lists) for each in reversed(messages) if each not in self._sizes)
        return DuplicateRisk(first.queue_offset, last.queue_offset + 1, count)

    def _wake(self) -> None:
        """Wake the current waiters. If the event stayed set, waiters for more room would loop without a pause."""
        self.room.set()
        self.room.clear()

    def _append(self, messages: Sequence[StoredMessage]) -> None:
        if not self._lists:
            self._rest = filter(self._sizes.__contains__, messages)
        self._lists.append((self._put_count, messages))
        self._put_count += len(messages)
        if self._first is None:
            self._find_first()

    def _find_first(self) -> None:
        """Advance to the next message that is not done; each message is visited once."""
        while self._lists:
            self._first = next(self._rest, None)
            if self._first is not None:
                return
            self._lists.popleft()
            self._rest = filter(self._sizes.__contains__, self._lists[0][1] if self._lists else ())

    def _forget_done(self) -> None:
        """Forget done messages behind a stuck one, except for the ends of each run."""
        kept: deque[tuple[int, Sequence[StoredMessage]]] = deque()
        was_done = False
        for put_before, messages in self._lists:
            is_done = self._sizes.keys().isdisjoint(messages)
            if is_done and was_done:
                kept[-1] = (kept[-1][0], (kept[-1][1][0], messages[-1]))
            else:
                kept.append((put_before, messages))
            was_done = is_done
        self._lists = kept

    def _restart(self) -> None:
        """Rebuild the order after offsets arrived out of order; done messages no longer count."""
        ordered = sorted(self._sizes.items(), key=lambda item: item[0].queue_offset)
        self._sizes.clear()
        self._sizes.update(ordered)
        self.size_bytes = sum(self._sizes.values())
        self._lists.clear()
        self._put_count = 0
        self._first = None
        self._append(tuple(self._sizes))
