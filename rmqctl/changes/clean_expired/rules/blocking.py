"""Whether a client consumes a queue again that was moved past its stuck message, and what that leaves to clean."""

from __future__ import annotations

from rmqctl.model.plan import ListenerBlock
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health.positions import Position, PositionPair
from rmqctl.rules.holder_report import Holder


def find_block(holder: Holder, watched: PositionPair) -> ListenerBlock | None:
    """Return why a client consumes nothing from a stuck queue until its listener returns; None when it does consume.

    A client that moves replaces its process queue. A listener call that has not returned keeps its thread. In order, it
    also keeps the queue's lock, for which the calls of the new process queue wait (ConsumeMessageOrderlyService:
    messageQueueLock). It is the same call as long as no other one has set the time of the last consumption.
    """
    first, last, busy_count = watched.first.held, watched.last.held, holder.busy_count
    if busy_count == 0:
        return None
    if holder.is_exhausted:
        return ListenerBlock.ALL_THREADS
    if holder.is_orderly and last is not None:
        called_ms = last.last_consume_at_ms
        if called_ms is None:
            return ListenerBlock.UNKNOWN
        return ListenerBlock.IN_ORDER if first is None or first.last_consume_at_ms == called_ms else None
    return ListenerBlock.UNKNOWN if busy_count is None or not holder.thread_count else None


def is_delivered(holder: Holder, watched: PositionPair) -> bool | None:
    """Return whether the listener of a client that is blocked got the head of the queue; None when that is unknown.

    In order, the client reports what its listener has. Without order, a message that waits for a thread looks like one
    that is in the listener.
    """
    if holder.head_for_ms is not None:
        return True
    if not holder.is_orderly:
        return None
    return any(each.held is not None and each.held.is_listening for each in (watched.first, watched.last))


def is_passed(position: Position) -> bool:
    """Return whether the stored offset is past the messages in flight: their client has not followed a reset."""
    head = None if position.held is None else position.held.head_offset
    return head is not None and position.consumer_offset is not None and position.consumer_offset > head


def describe_not_followed(mq: MessageQueue, client_id: str, head_offset: int, stored: int | None) -> str | None:
    """Return a sentence about a stored offset that is past the messages in flight; None when it is not.

    On 5.x, brokers report the target of a reset as stored until the client has moved there.
    """
    if stored is None or stored <= head_offset:
        return None
    return (
        f"The stored offset {stored} of {mq} is past the message at {head_offset}. {client_id} has not moved there: "
        "restart it if it does not move within 20 s."
    )
