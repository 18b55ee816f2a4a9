"""Each queue belongs to the next client on a ring of hashes, so that most queues stay when a client joins or leaves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import md5

from rmqctl.model.queue import MessageQueue

from .base import AllocationError, Assignment, check

VIRTUAL_NODES = 10


def allocate_by_consistent_hash(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], *, virtual_nodes: int = VIRTUAL_NODES
) -> Assignment:
    """Give each queue to the first client at or behind its hash (AllocateMessageQueueConsistentHash).

    Each client is on the ring `virtual_nodes` times; with 0, no client gets a queue. Raises AllocationError.
    """
    check(queues, client_ids)
    if virtual_nodes < 0:
        raise AllocationError(f"virtualNodes is {virtual_nodes}, which is below 0.")
    assignment: Assignment = {client_id: [] for client_id in client_ids}
    owners = _ring(client_ids, virtual_nodes)
    if not owners:
        return assignment
    ring = sorted(owners)
    shares = [assignment[owners[node]] for node in ring]
    shares.append(shares[0])  # after the last node the ring continues with the first one
    for queue in queues:
        # MessageQueue.toString()
        text = f"MessageQueue [topic={queue[0]}, brokerName={queue[1]}, queueId={queue[2]}]"
        shares[bisect_left(ring, _hash(text))].append(queue)
    return assignment


def _ring(client_ids: Sequence[str], virtual_nodes: int) -> dict[int, str]:
    """Return the client at each place of the ring (ConsistentHashRouter.addNode)."""
    owners: dict[int, str] = {}
    node_counts: dict[str, int] = {}
    for client_id in client_ids:
        # A duplicate id gets twice as many nodes, numbered consecutively.
        first = node_counts.get(client_id, 0)
        for number in range(first, first + virtual_nodes):
            place = _hash(f"{client_id}-{number}")
            loser = owners.get(place)
            if loser is not None:
                node_counts[loser] -= 1
            owners[place] = client_id
            node_counts[client_id] = node_counts.get(client_id, 0) + 1
    return owners


def _hash(text: str) -> int:
    """Return the first four bytes of the MD5 (ConsistentHashRouter.MD5Hash); not used for security."""
    return int.from_bytes(md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()[:4])
