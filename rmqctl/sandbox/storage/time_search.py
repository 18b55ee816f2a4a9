"""The offset of a time in a queue (ConsumeQueue.getOffsetInQueueByTime)."""

from __future__ import annotations

from .consume_queue import ConsumeQueue

# Entries in one file of a consume queue: 5.x returns the start of the first file for times before all messages.
_FILE_ENTRY_COUNT = 300_000


def search(queue: ConsumeQueue | None, time_ms: int, *, is_5: bool, is_upper: bool = False) -> int:
    """Return the offset for a time in ms since 1970, the end of the queue when it has no messages.

    5.x finds the first message stored at or after the time (the end when there is none), or with `is_upper` the last
    one stored at or before it (0 when there is none). 4.9 chooses the neighbour that is nearer in time, so it never
    goes past the last message.
    """
    if queue is None or not queue.stored_at_ms:
        return 0 if queue is None else queue.max_offset
    if not is_5:
        return _nearest(queue, time_ms)
    if time_ms < queue.stored_at_ms[0]:
        return 0 if is_upper else queue.min_offset // _FILE_ENTRY_COUNT * _FILE_ENTRY_COUNT
    return queue.first_stored_after(time_ms) - 1 if is_upper else queue.first_stored_from(time_ms)


def _nearest(queue: ConsumeQueue, time_ms: int) -> int:
    """Search as 4.9 does: of messages with the same time, return the one that the binary search finds first."""
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
