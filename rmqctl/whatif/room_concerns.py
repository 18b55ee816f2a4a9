"""Find rooms without clients or without queues, which strategies by site ignore silently."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Options
from rmqctl.rules.allocate.machine_room import allocate_by_machine_room

from .concerns import Concern
from .group_snapshot import GroupSnapshot


def find_room_concerns(snapshot: GroupSnapshot, strategy: str, options: Options) -> Iterator[Concern]:
    """Find rooms without queues and rooms without clients, for the strategies that use rooms."""
    brokers = dict.fromkeys(mq.broker_name for mq in snapshot.queues)
    if strategy == "machine-room":
        for room in options.rooms:
            if not any(is_in_room(name, room) for name in brokers):
                yield Concern("ROOM_WITHOUT_QUEUES", f"Room {room} has no queues: no broker is named {room}@NAME.")
    if strategy == "machine-room-nearby":
        # The strategy has already resolved all of them.
        homes = dict.fromkeys(str(options.client_site(client_id)) for client_id in snapshot.client_ids)
        rooms = dict.fromkeys(str(options.broker_site(name)) for name in brokers)
        for room in sorted(rooms.keys() - homes.keys()):
            text = "its queues are allocated to the clients of all rooms."
            yield Concern("ROOM_WITHOUT_CLIENTS", f"Room {room} has no clients: {text}")
        for room in sorted(homes.keys() - rooms.keys()):
            text = "its clients only get queues of rooms without clients."
            yield Concern("ROOM_WITHOUT_QUEUES", f"Room {room} has no queues: {text}")


def is_in_room(broker_name: str, room: str) -> bool:
    """Tell whether machine-room treats a broker as part of a room."""
    return bool(allocate_by_machine_room([MessageQueue("", broker_name, 0)], ["c"], rooms=(room,))["c"])
