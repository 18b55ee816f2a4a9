"""The queues that a popping client may read: its own and those of the next clients, or all of them."""

from __future__ import annotations

from collections.abc import Sequence

from rmqctl.model.queue import MessageQueue

from .base import Allocate, Assignment, check

# Means all queues of a broker (QueueId in PopMessageRequestHeader).
ALL_QUEUES = -1


def all_pop_all(client_count: int, share_count: int) -> bool:
    """Tell whether every client pops from all queues, so that it does not matter which one asks."""
    return share_count <= 0 or share_count >= client_count - 1


def whole_brokers(queues: Sequence[MessageQueue]) -> list[MessageQueue]:
    """Return one entry for each broker that means all of its queues."""
    return [MessageQueue(*broker, ALL_QUEUES) for broker in dict.fromkeys(queue[:2] for queue in queues)]


def allocate_for_pop(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], *, inner: Allocate, share_count: int
) -> Assignment:
    """Give each client its own share and those of the next `share_count` clients, as brokers do.

    With a share count that is not positive, or with no more clients than share a queue, every client pops from all
    queues: queue id -1 means all queues of a broker. With fewer queues than clients each client has one queue. Raises
    AllocationError. Source: QueryAssignmentProcessor.allocate4Pop.
    """
    check(queues, client_ids)
    client_count = len(client_ids)
    if all_pop_all(client_count, share_count):
        return {client_id: whole_brokers(queues) for client_id in client_ids}
    if client_count > len(queues):
        return {
            client_id: [queues[index % len(queues)]]
            for index, client_id in reversed(list(enumerate(client_ids)))
        }  # fmt: skip
    own = inner(queues, client_ids)
    assignment: Assignment = {}
    for index, client_id in enumerate(client_ids):
        if client_id not in assignment:
            sharers = [client_ids[(index + step) % client_count] for step in range(share_count + 1)]
            assignment[client_id] = [queue for sharer in sharers for queue in own[sharer]]
    return assignment
