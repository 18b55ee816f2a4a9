"""A simulated group of a given size: `--brokers 5 --queues 2 --consumers 3`."""

from __future__ import annotations

from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue

from .changes import MOST
from .group_snapshot import GroupSnapshot

TOPIC = "topic"


def shape(broker_count: int, queue_count: int, client_count: int) -> GroupSnapshot:
    """Return a snapshot of `broker_count` brokers with `queue_count` queues each, and `client_count` clients.

    Names sort by number. Raises UsageError for an impossible size.
    """
    for option, count in (("--brokers", broker_count), ("--queues", queue_count), ("--consumers", client_count)):
        if count < 1:
            raise UsageError(f"{option} {count}: the number must be at least 1.")
    if broker_count * queue_count > MOST or client_count > MOST:
        raise UsageError(f"The group is too large: at most {MOST} queues and {MOST} clients are supported.")
    brokers = [f"broker-{number:0{len(str(broker_count))}}" for number in range(1, broker_count + 1)]
    queues = tuple(MessageQueue(TOPIC, name, queue_id) for name in brokers for queue_id in range(queue_count))
    clients = tuple(f"client-{number:0{len(str(client_count))}}" for number in range(1, client_count + 1))
    return GroupSnapshot(queues, clients)
