"""Sharing by site: the queues of chosen rooms only, or each room's queues among its own clients first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rmqctl.model.queue import MessageQueue

from .base import Allocate, AllocationError, Assignment, check, java_order

_SEPARATOR = "@"
SiteOf = Callable[[str], str | None]


def allocate_by_machine_room(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], *, rooms: Collection[str]
) -> Assignment:
    """Share the queues of brokers that are called ROOM@NAME, for the rooms given (AllocateMessageQueueByMachineRoom).

    Queues of all other brokers are nobody's. A client gets a run of p // k of the p queues; what is over is dealt out
    from the end of the list. Raises AllocationError.
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
    # As Java splits: what is empty at the end is no part.
    parts = broker_name.rstrip(_SEPARATOR).split(_SEPARATOR)
    return parts[0] if len(parts) == 2 else None


def allocate_nearby(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], *, inner: Allocate, broker_site: SiteOf,
    client_site: SiteOf,
) -> Assignment:  # fmt: skip
    """Share each room's queues among the room's clients, those of rooms without clients among all of them.

    (AllocateMachineRoomNearby.) `inner` shares in each case; `broker_site` tells the room of a broker by its name,
    `client_site` that of a client by its id. Raises AllocationError for one that has no room.
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
        raise AllocationError(f"Nothing tells in which room {kind} {name} is.")
    return site


def site_before(separator: str) -> SiteOf:
    """Return a resolver that reads the room from the front of a name: IDC1 of IDC1-broker-a."""
    return lambda name: name.partition(separator)[0]
