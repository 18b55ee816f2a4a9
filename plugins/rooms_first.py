"""A plugin for rmqctl: the strategy `rooms-first` and the site resolver `zone-suffix`.

The strategy assigns the queues of each room to the clients of that room, as machine-room-nearby does. It limits each
client to `maxShare` times the fair share (all queues divided by all clients). Queues above the limit, and queues of
rooms without clients, go to the client with the fewest queues, in any room. A room with few clients is therefore not
overrun when most of its clients die, and queues stay in their room while its clients can carry them.

    echo '{"queues": [{"topic": "orders", "brokerName": "east-broker", "queueId": 0},
                      {"topic": "orders", "brokerName": "east-broker", "queueId": 1},
                      {"topic": "orders", "brokerName": "east-broker", "queueId": 2},
                      {"topic": "orders", "brokerName": "west-broker", "queueId": 0}],
           "clients": ["east-c1", "west-c1"],
           "options": {"custom": {"maxShare": 1.0}}}' |
        rmqctl whatif allocate --spec - --strategy rooms-first --plugin plugins/rooms_first.py

This gives east-c1 two queues of its own room, and west-c1 the third in addition to its own. Options, under "custom":

maxShare  At least 1; the default is 1.5. No client gets more than the fair share rounded up, or maxShare times the
          fair share if that is more. With 1, no client gets more than averagely gives the first client. Others may get
          fewer than with averagely, because queues stay in their room. Each topic is allocated separately.
siteOf    How to find the room of a broker name or a client id: a separator that ends the room (the default is "-"),
          "zone-suffix", or a table {"east-broker": "east", "10.0.0.7@c1": "east"}.

The resolver `zone-suffix` also works for machine-room-nearby. The room is the part after the last dot of a broker name
(broker-a.east), or of the instance name in a client id (10.0.0.7@c1.east).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from rmqctl.plugin import (
    AllocationError,
    Assignment,
    CustomStrategy,
    MessageQueue,
    SiteResolver,
    hookimpl,
    sort_client_ids,
    sort_queues,
)

MAX_SHARE = 1.5
_OPTIONS = ("maxShare", "siteOf")


def rooms_first(queues: Sequence[MessageQueue], client_ids: Sequence[str], options: Mapping[str, Any]) -> Assignment:
    """Assign queues within rooms up to a limit, whatever the order of the arguments. Raises AllocationError."""
    max_share, site_of = _read(options)
    ids, ordered = sort_client_ids(set(client_ids)), sort_queues(set(queues))
    # Rounded up, the limit always leaves room for all queues.
    limit = max(-(-len(ordered) // len(ids)), int(min(max_share, len(ids)) * len(ordered) / len(ids)))
    clients_by_room: dict[str, list[str]] = {}
    for client_id in ids:
        clients_by_room.setdefault(_room(site_of, "client", client_id), []).append(client_id)
    rooms = {name: _room(site_of, "broker", name) for name in dict.fromkeys(queue.broker_name for queue in ordered)}
    queues_by_room: dict[str, list[MessageQueue]] = {}
    for queue in ordered:
        queues_by_room.setdefault(rooms[queue.broker_name], []).append(queue)
    assignment: Assignment = {client_id: [] for client_id in ids}
    spilled: list[MessageQueue] = []
    for room, own in queues_by_room.items():
        spilled += _share(own, clients_by_room.get(room, []), limit, assignment)
    loads = [(len(share), index) for index, share in enumerate(assignment.values())]
    heapq.heapify(loads)
    for queue in spilled:
        count, index = loads[0]
        assignment[ids[index]].append(queue)
        heapq.heapreplace(loads, (count + 1, index))
    return {client_id: sort_queues(share) for client_id, share in assignment.items()}


def _share(
    queues: Sequence[MessageQueue], client_ids: Sequence[str], limit: int, assignment: Assignment
) -> list[MessageQueue]:
    """Give each client of a room consecutive queues, up to the limit; return the rest."""
    rest = iter(queues)
    if client_ids:
        size, over = divmod(min(len(queues), limit * len(client_ids)), len(client_ids))
        for index, client_id in enumerate(client_ids):
            assignment[client_id] += islice(rest, size + (index < over))
    return list(rest)


def zone_suffix(kind: str, name: str) -> str | None:
    """Return the part after the last dot, or None when it is missing or empty.

    A client id is IP@INSTANCE, followed by more parts for units and streams (ClientConfig.buildMQClientId). The dots
    of the address are ignored.
    """
    parts = name.split("@")
    if kind == "client" and len(parts) > 1:
        name = parts[1]
    return name.rpartition(".")[2] or None if "." in name else None


def _read(options: Mapping[str, Any]) -> tuple[float, SiteResolver]:
    for name in options:
        if name not in _OPTIONS:
            raise AllocationError(
                f"Unknown option {name!r} for rooms-first.", hint=f"Use one of: {', '.join(_OPTIONS)}."
            )
    max_share = options.get("maxShare", MAX_SHARE)
    if isinstance(max_share, bool) or not isinstance(max_share, int | float) or not 1 <= max_share < float("inf"):
        raise AllocationError(f"Invalid maxShare {max_share!r}.", hint="Use a number of at least 1.")
    return max_share, _site_of(options.get("siteOf", "-"))


def _site_of(given: Any) -> SiteResolver:
    if given == "zone-suffix":
        return zone_suffix
    if isinstance(given, Mapping):
        return lambda _, name: given.get(name)
    if isinstance(given, str) and given:
        return lambda _, name: name.partition(given)[0]
    raise AllocationError(
        f"Invalid siteOf {given!r}.", hint="Use a separator, zone-suffix, or a table of rooms by name."
    )


def _room(site_of: SiteResolver, kind: str, name: str) -> str:
    room = site_of(kind, name)
    if not room or not isinstance(room, str):
        raise AllocationError(f"The room of {kind} {name} is unknown.")
    return room


@hookimpl
def rmqctl_strategies() -> Mapping[str, CustomStrategy]:
    """See rmqctl.plugin.hookspecs."""
    return {"rooms-first": rooms_first}


@hookimpl
def rmqctl_site_resolvers() -> Mapping[str, SiteResolver]:
    """See rmqctl.plugin.hookspecs."""
    return {"zone-suffix": zone_suffix}
