"""A group of a size: `--brokers 5 --queues 2 --consumers 3`."""

from __future__ import annotations

from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue

from .changes import MOST
from .scene import Scene

TOPIC = "topic"


def shape(broker_count: int, queue_count: int, client_count: int) -> Scene:
    """Return so many brokers with so many queues each, and so many clients, named so that they sort by number.

    Raises UsageError for a size that none can have.
    """
    for option, count in (("--brokers", broker_count), ("--queues", queue_count), ("--consumers", client_count)):
        if count < 1:
            raise UsageError(f"{option} {count}: there must be at least 1.")
    if broker_count * queue_count > MOST or client_count > MOST:
        raise UsageError(f"No more than {MOST} queues and {MOST} clients can be shared.")
    brokers = [f"broker-{number:0{len(str(broker_count))}}" for number in range(1, broker_count + 1)]
    queues = tuple(MessageQueue(TOPIC, name, queue_id) for name in brokers for queue_id in range(queue_count))
    clients = tuple(f"client-{number:0{len(str(client_count))}}" for number in range(1, client_count + 1))
    return Scene(queues, clients)
