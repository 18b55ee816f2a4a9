"""Allocation by site: only the queues of chosen rooms, or each room's queues among its own clients first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rmqctl.model.queue import MessageQueue

from .base import Allocate, AllocationError, Assignment, check, java_order

_SEPARATOR = "@"
SiteOf = Callable[[str], str | None]


def allocate_by_machine_room(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], *, rooms: Collection[str]
) -> Assignment:
    """Allocate the queues of brokers named ROOM@NAME, for the given rooms (AllocateMessageQueueByMachineRoom).

    Queues of all other brokers have no owner. A client gets a run of p // k of the p queues; the remaining queues, at
    the end of the list, are dealt out one by one. Raises AllocationError.
    """
    check(queues, client_ids)
    chosen = [queue for queue in queues if _room(queue.broker_name) in rooms]
    size, over = divmod(len(chosen), len(client_ids))
    rest = size * len(client_ids)
    assignment: Assignment = {}
    for index, client_id in enumerate(client_ids):
        if client_id not in assignment:
            assignment[client_id] = chosen[size * index : size * (index + 1)]
            if index < over:
                assignment[client_id].append(chosen[rest + index])
    return assignment


def _room(broker_name: str) -> str | None:
    # As in Java's split, empty parts at the end do not count.
    parts = broker_name.rstrip(_SEPARATOR).split(_SEPARATOR)
    return parts[0] if len(parts) == 2 else None


def allocate_nearby(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], *, inner: Allocate, broker_site: SiteOf,
    client_site: SiteOf,
) -> Assignment:  # fmt: skip
    """Allocate each room's queues to the room's clients, those of rooms without clients to all clients.

    `inner` allocates in each case; `broker_site` returns the room of a broker name, `client_site` the room of a client
    id. Raises AllocationError for a broker or client without a room. Source: AllocateMachineRoomNearby.
    """
    check(queues, client_ids)
    queues_by_room: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        queues_by_room.setdefault(_site(broker_site, "broker", queue.broker_name), []).append(queue)
    clients_by_room: dict[str, list[str]] = {}
    for client_id in client_ids:
        clients_by_room.setdefault(_site(client_site, "client", client_id), []).append(client_id)
    assignment: Assignment = {client_id: [] for client_id in client_ids}
    served = [room for room in queues_by_room if room in clients_by_room]
    orphaned = sorted((room for room in queues_by_room if room not in clients_by_room), key=java_order)
    for room in (*served, *orphaned):
        for client_id, share in inner(queues_by_room[room], clients_by_room.get(room, client_ids)).items():
            assignment[client_id] += share
    return assignment


def _site(site_of: SiteOf, kind: str, name: str) -> str:
    site = site_of(name)
    if not site:
        raise AllocationError(f"The room of {kind} {name} is unknown.")
    return site


def site_before(separator: str) -> SiteOf:
    """Return a resolver that reads the room from the start of a name: IDC1 from IDC1-broker-a."""
    return lambda name: name.partition(separator)[0]
