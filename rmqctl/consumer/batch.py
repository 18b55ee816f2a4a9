"""Some messages of one queue that a listener gets at once, and what it says of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from rmqctl.model.consuming import ConsumeStatus
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage

from .process_queue import ProcessQueue

# Every message of a batch.
ALL = 2**31 - 1


class Batch(Struct, eq=False):
    """Messages of one queue, and the context in which a listener gets them (ConsumeConcurrentlyContext).

    A listener may set `ack_index`, the last message that is done, by index; those after it are consumed again. It may
    set `delay_level` for those: 0 leaves it to the broker, -1 makes dead letters of them. `attempt` counts how often
    this process has tried them before, where the broker did not take them back.
    """

    process_queue: ProcessQueue
    messages: Sequence[StoredMessage]
    delay_level: int
    ack_index: int = ALL
    attempt: int = 0
    # Monotonic times, in s; 0 before that.
    started_s: float = 0.0
    finished_s: float = 0.0
    status: ConsumeStatus | None = None
    error: BaseException | None = None
    # Its time is over while the listener has it still; expired is what was sent back for that.
    is_overdue: bool = False
    is_expired: bool = False
    # It was not consumed, and is neither acknowledged nor sent back: a later member gets it.
    is_left_alone: bool = False

    @property
    def mq(self) -> MessageQueue:
        """Where the messages come from."""
        return self.process_queue.mq


# What consumes: a plain function or a coroutine function. None and exceptions mean RECONSUME_LATER, as in Java.
Answer = ConsumeStatus | None
Listener = Callable[[Sequence[StoredMessage], Batch], "Answer | Awaitable[Answer]"]
