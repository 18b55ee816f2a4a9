"""The messages of one queue of an orderly consumer, in order, and how far it is with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from rmqctl.protocol.message import StoredMessage

from .batch import OrderlyBatch
from .process_queue import ProcessQueue


class QueueLine(NamedTuple):
    """The messages of a queue that wait for COMMIT, those that the listener has, and those behind them, in order."""

    uncommitted: list[StoredMessage]
    in_work: list[StoredMessage]
    waiting: list[StoredMessage]


class OrderlyLine:
    """The messages of one process queue that the listener has not had, or gets again.

    The event loop appends to `waiting`; the worker that has the queue takes from its left, and only it does.
    """

    __slots__ = (
        "failing", "is_blocked", "process_queue", "resumes_at_s", "taken_s", "tries", "uncommitted", "unproven",
        "waiting",
    )  # fmt: skip

    def __init__(self, process_queue: ProcessQueue) -> None:
        self.process_queue = process_queue
        self.waiting: deque[StoredMessage] = deque()
        # Consumed with success, without auto_commit.
        self.uncommitted: list[StoredMessage] = []
        # How often a message failed here.
        self.tries: dict[StoredMessage, int] = {}
        # The first try of the batch that fails now, and when it started.
        self.failing: tuple[float, OrderlyBatch] | None = None
        # No broker accepts its dead letters.
        self.is_blocked = False
        # Batches that ended when the lock did not count: their results count once it does again.
        self.unproven: list[OrderlyBatch] = []
        self.taken_s = 0.0
        self.resumes_at_s = 0.0

    def put_back(self, messages: Sequence[StoredMessage]) -> None:
        """Have messages come first again."""
        self.waiting.extendleft(reversed(messages))

    def forget_tries(self, messages: Sequence[StoredMessage]) -> None:
        """Note that messages are done: nothing fails here now."""
        self.failing = None
        if self.tries:
            for message in messages:
                self.tries.pop(message, None)

    def draw(self, most: int) -> OrderlyBatch:
        """Take the next messages, with their numbers of tries. Only the worker may call it, or a loop without one."""
        waiting = self.waiting
        stored = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        batch = OrderlyBatch(self.process_queue, stored, 0, stored=stored)
        if self.tries:
            tries = [self.tries.get(message, 0) for message in stored]
            batch.attempt = tries[0]
            batch.messages = [
                message.with_reconsume_times(message.reconsume_times + count) if count else message
                for message, count in zip(stored, tries, strict=True)
            ]
        return batch

    def view(self, running: OrderlyBatch | None) -> QueueLine:
        """Return how far the queue is, with the batch that the listener has."""
        return QueueLine(list(self.uncommitted), [] if running is None else list(running.stored), list(self.waiting))
