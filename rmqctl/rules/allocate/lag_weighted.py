"""Equal work instead of equal numbers of queues. RocketMQ does not have this strategy; it is for comparison."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from rmqctl.model.queue import MessageQueue

from .base import AllocationError, Assignment, check, sort_client_ids, sort_queues

# A queue without work counts a little: else one client would get all such queues.
_LEAST_SHARE_OF_MEAN = 0.01


def allocate_by_lag(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], *, weights: Mapping[MessageQueue, float]
) -> Assignment:
    """Give each queue, the heaviest first, to the least loaded client (longest processing time first, Graham 1969).

    `weights` is the work in each queue, all in one unit; a missing queue has none. No client gets more than the mean
    plus one queue, nor more than 4/3 of its load in the best distribution. The result is independent of order. Raises
    AllocationError.
    """
    check(queues, client_ids)
    ordered = sort_queues(set(queues))
    work = {queue: float(weights.get(queue, 0)) for queue in ordered}
    for queue, weight in work.items():
        if not 0 <= weight < float("inf"):
            raise AllocationError(f"Invalid weight {weight:g} of queue {queue}: it must be a finite number from 0.")
    least = sum(work.values()) / len(work) * _LEAST_SHARE_OF_MEAN or 1.0
    ids = sort_client_ids(set(client_ids))
    assignment: Assignment = {client_id: [] for client_id in ids}
    loads = [(0.0, 0, index) for index in range(len(ids))]
    for queue in sorted(ordered, key=lambda queue: -work[queue]):
        load, count, index = loads[0]
        assignment[ids[index]].append(queue)
        heapq.heapreplace(loads, (load + max(work[queue], least), count + 1, index))
    return {client_id: sort_queues(share) for client_id, share in assignment.items()}
