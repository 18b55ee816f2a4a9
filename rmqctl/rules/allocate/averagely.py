"""Equal numbers of queues: in runs of neighbours, or dealt out one by one."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.model.queue import MessageQueue

from .base import Assignment, check


def allocate_averagely(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> Assignment:
    """Give each client a run of neighbouring queues (AllocateMessageQueueAveragely).

    The first n % k clients get one more. A duplicate id gets the share of its first place; the share of its second
    place has no owner. Raises AllocationError.
    """
    check(queues, client_ids)
    size, over = divmod(len(queues), len(client_ids))
    assignment: Assignment = {}
    start = 0
    for index, client_id in enumerate(client_ids):
        end = start + size + (index < over)
        if client_id not in assignment:
            assignment[client_id] = list(queues[start:end])
        start = end
    return assignment


def allocate_by_circle(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> Assignment:
    """Give each of k clients every k-th queue (AllocateMessageQueueAveragelyByCircle). Raises AllocationError."""
    check(queues, client_ids)
    assignment: Assignment = {}
    for index, client_id in enumerate(client_ids):
        if client_id not in assignment:
            assignment[client_id] = list(queues[index :: len(client_ids)])
    return assignment
