"""Where a time stands in a queue (ConsumeQueue.getOffsetInQueueByTime)."""

from __future__ import annotations

from .broker import Broker
from .consume_queue import ConsumeQueue

# Entries in one file of a consume queue: 5.x answers the first one's start for times before all messages.
_FILE_ENTRY_COUNT = 300_000


def search(broker: Broker, topic: str, queue_id: int, time_ms: int, *, is_upper: bool = False) -> int:
    """Return the offset that a time is looked up as, 0 for a queue without messages.

    5.x finds the first message that was stored then or later (the end when none was), or with `is_upper` the last one
    that was stored then or before (0 when none was). 4.9 takes whichever neighbour is nearer in time, and so never goes
    behind the last message.
    """
    queue = broker.store.find_queue(topic, queue_id)
    if queue is None or not queue.stored_at_ms:
        return 0 if queue is None else queue.max_offset
    if not broker.profile.is_5:
        return _nearest(queue, time_ms)
    if time_ms < queue.stored_at_ms[0]:
        return 0 if is_upper else queue.min_offset // _FILE_ENTRY_COUNT * _FILE_ENTRY_COUNT
    return queue.first_stored_after(time_ms) - 1 if is_upper else queue.first_stored_from(time_ms)


def _nearest(queue: ConsumeQueue, time_ms: int) -> int:
    """Search as 4.9 does: of messages of one time it finds the one that halving the queue comes upon first."""
    low, high, before, after = queue.min_offset, queue.max_offset - 1, -1, -1
    while low <= high:
        middle = (low + high) // 2
        stored_at_ms = queue.stored_at_ms[middle - queue.min_offset]
        if stored_at_ms == time_ms:
            return middle
        if stored_at_ms > time_ms:
            high, after = middle - 1, middle
        else:
            low, before = middle + 1, middle
    if before == -1 or after == -1:
        return max(before, after)
    times = queue.stored_at_ms
    to_before_ms = time_ms - times[before - queue.min_offset]
    return after if to_before_ms > times[after - queue.min_offset] - time_ms else before
