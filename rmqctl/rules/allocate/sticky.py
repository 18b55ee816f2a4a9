"""Equal numbers of queues with the least movement. RocketMQ does not have this strategy; it is for comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from rmqctl.model.queue import MessageQueue

from .base import Assignment, check, sort_client_ids, sort_queues


def allocate_sticky(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], *, previous: Mapping[str, Sequence[MessageQueue]]
) -> Assignment:
    """Leave queues with their owners, while no client has more than one queue above another; deal out the rest.

    Movement is the least that such a balance allows: the clients that held most keep the larger shares. The result is
    independent of order: a queue held by two clients stays with the first id in sort order. Raises AllocationError.
    """
    check(queues, client_ids)
    ids, ordered = sort_client_ids(set(client_ids)), sort_queues(set(queues))
    free = set(ordered)
    held: Assignment = {}
    for client_id in ids:
        held[client_id] = [queue for queue in sort_queues(set(previous.get(client_id, ()))) if queue in free]
        free.difference_update(held[client_id])
    size, over = divmod(len(ordered), len(ids))
    # The sort is stable: ids that held the same number keep their order.
    larger = set(sorted(ids, key=lambda client_id: -len(held[client_id]))[:over])
    limits = {client_id: size + (client_id in larger) for client_id in ids}
    for client_id, share in held.items():
        free.update(share[limits[client_id] :])
        del share[limits[client_id] :]
    rest = iter([queue for queue in ordered if queue in free])
    for client_id, share in held.items():
        share += islice(rest, limits[client_id] - len(share))
    return {client_id: sort_queues(share) for client_id, share in held.items()}
