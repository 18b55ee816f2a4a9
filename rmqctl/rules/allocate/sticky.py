"""Equal numbers of queues with the least movement. RocketMQ has no such strategy; operators can compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from rmqctl.model.queue import MessageQueue

from .base import Assignment, check, sort_client_ids, sort_queues


def allocate_sticky(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], *, previous: Mapping[str, Sequence[MessageQueue]]
) -> Assignment:
    """Leave queues with who had them, as far as nobody gets more than one queue above another; deal out the rest.

    Movement is the least that such a balance allows: who held most keeps the larger shares. Depends on no order: of
    what two clients held, the first in order keeps it. Raises AllocationError.
    """
    check(queues, client_ids)
    ids, ordered = sort_client_ids(set(client_ids)), sort_queues(set(queues))
    free = set(ordered)
    held: Assignment = {}
    for client_id in ids:
        held[client_id] = [queue for queue in sort_queues(set(previous.get(client_id, ()))) if queue in free]
        free.difference_update(held[client_id])
    size, over = divmod(len(ordered), len(ids))
    # Sorting keeps the order of ids that held as many.
    larger = set(sorted(ids, key=lambda client_id: -len(held[client_id]))[:over])
    limits = {client_id: size + (client_id in larger) for client_id in ids}
    for client_id, share in held.items():
        free.update(share[limits[client_id] :])
        del share[limits[client_id] :]
    rest = iter([queue for queue in ordered if queue in free])
    for client_id, share in held.items():
        share += islice(rest, limits[client_id] - len(share))
    return {client_id: sort_queues(share) for client_id, share in held.items()}
