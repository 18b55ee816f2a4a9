"""Some messages of one queue that a listener gets at once, and what it says of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from rmqctl.model.consuming import ConsumeStatus
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage

from .process_queue import ProcessQueue

# Every message of a batch.
ALL = 2**31 - 1


class Batch:
    """Messages of one queue, and the context in which a listener gets them (ConsumeConcurrentlyContext).

    A listener may set `ack_index`, the last message that is done, by index; those after it are consumed again. It may
    set `delay_level` for those: 0 leaves it to the broker, -1 makes dead letters of them. `attempt` counts how often
    this process has tried them before, where the broker did not take them back.
    """

    __slots__ = (
        "ack_index", "attempt", "delay_level", "error", "finished_s", "is_expired", "is_left_alone", "messages",
        "process_queue", "started_s", "status",
    )  # fmt: skip

    def __init__(self, process_queue: ProcessQueue, messages: Sequence[StoredMessage], delay_level: int) -> None:
        self.process_queue = process_queue
        self.messages = messages
        self.delay_level = delay_level
        self.ack_index = ALL
        self.attempt = 0
        # Monotonic times, in s; 0 before that.
        self.started_s = 0.0
        self.finished_s = 0.0
        self.status: ConsumeStatus | None = None
        self.error: BaseException | None = None
        self.is_expired = False
        # It was not consumed, and is neither acknowledged nor sent back: a later member gets it.
        self.is_left_alone = False

    @property
    def mq(self) -> MessageQueue:
        """Where the messages come from."""
        return self.process_queue.mq


# What consumes: a plain function or a coroutine function. None and exceptions mean RECONSUME_LATER, as in Java.
Answer = ConsumeStatus | None
Listener = Callable[[Sequence[StoredMessage], Batch], "Answer | Awaitable[Answer]"]
