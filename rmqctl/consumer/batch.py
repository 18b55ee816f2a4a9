"""Messages of one queue that a listener gets in one call, and their result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Literal

from msgspec import Struct

from rmqctl.model.consumption import ConsumeOrderlyStatus, ConsumeResult, ConsumeStatus
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.message import StoredMessage

from .process_queue import ProcessQueue

# Every message of a batch.
ALL = 2**31 - 1
_FAILED = frozenset({ConsumeStatus.RECONSUME_LATER, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT})


class Admission(Enum):
    """What to do with a batch: consume it, keep it for later, or leave it unacknowledged for other members."""

    START = "START"
    LATER = "LATER"
    LEAVE = "LEAVE"


class Batch(Struct, eq=False):
    """Messages of one queue, and the context in which a listener gets them (ConsumeConcurrentlyContext).

    A listener may set `ack_index` to the index of the last message that is done; later ones are redelivered. It may set
    `delay_level` for those: 0 leaves the delay to the broker, -1 makes them dead letters. `attempt` counts the earlier
    tries in this process, because the broker did not accept them back.
    """

    process_queue: ProcessQueue
    messages: Sequence[StoredMessage]
    delay_level: int
    ack_index: int = ALL
    attempt: int = 0
    # Monotonic times in s; 0 until then.
    started_s: float = 0.0
    finished_s: float = 0.0
    status: ConsumeStatus | ConsumeOrderlyStatus | None = None
    error: BaseException | None = None
    # Overdue: its time is over, but the listener still has it. Expired: it was sent back for that reason.
    is_overdue: bool = False
    is_expired: bool = False
    # It was not consumed, and is neither acknowledged nor sent back: it is redelivered later.
    is_left_alone: bool = False
    # It was admitted by a limit of the number of messages, and has not ended.
    is_limited: bool = False

    @property
    def mq(self) -> MessageQueue:
        """The queue of the messages."""
        return self.process_queue.mq


class OrderlyBatch(Batch, eq=False):
    """Messages of one queue, and the context in which an orderly listener gets them (ConsumeOrderlyContext).

    A listener may set `suspend_ms`, the pause of the queue after SUSPEND_CURRENT_QUEUE_A_MOMENT or ROLLBACK: 10 to
    30,000; -1 is the consumer's suspend_s. It may set `auto_commit` to False: SUCCESS then acknowledges nothing, until
    it returns COMMIT or ROLLBACK for a later batch. `attempt` counts the earlier tries of the first message here.
    """

    suspend_ms: int = -1
    auto_commit: bool = True
    # As they are stored; `messages` has those with their numbers of tries.
    stored: Sequence[StoredMessage] = ()
    # The worker does not continue with this queue by itself.
    is_turn_over: bool = False


def result_of(batch: Batch) -> ConsumeResult:
    """Return how a batch that ended is counted, whatever time it took."""
    if batch.error is not None:
        return ConsumeResult.EXCEPTION
    if batch.status is None:
        return ConsumeResult.RETURNNULL
    return ConsumeResult.FAILED if batch.status in _FAILED else ConsumeResult.SUCCESS


Answer = ConsumeStatus | Literal["CONSUME_SUCCESS", "RECONSUME_LATER"] | None
Listener = Callable[[Sequence[StoredMessage], Batch], "Answer | Awaitable[Answer]"]
"""A plain function or a coroutine function. None and exceptions mean RECONSUME_LATER, as in Java."""
OrderlyAnswer = ConsumeOrderlyStatus | Literal["SUCCESS", "SUSPEND_CURRENT_QUEUE_A_MOMENT", "COMMIT", "ROLLBACK"] | None
OrderlyListener = Callable[[Sequence[StoredMessage], OrderlyBatch], "OrderlyAnswer | Awaitable[OrderlyAnswer]"]
"""The same for is_orderly. None and exceptions mean SUSPEND_CURRENT_QUEUE_A_MOMENT."""
AnyListener = Listener | OrderlyListener
