"""Where a producer sends: which queues it may use, which one is next, and how messages are batched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import TopicRoute

from .message_filters.tags import hash_code


def writable_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues that can be written to, sorted (MQClientInstance.topicRouteData2TopicPublishInfo).

    Queues of brokers without a master are left out. For an ordered topic the name server defines the queues. For a
    static topic they are its logical queues, at the brokers to which they are mapped.
    """
    if route.order_conf:
        return tuple(
            MessageQueue(route.topic, broker_name, queue_id)
            for broker_name, count in _ordered(route.order_conf)
            for queue_id in range(count)
        )
    with_master = {broker.broker_name for broker in route.brokers if broker.master_address is not None}
    logical = {mapping.broker_name: tuple(mapping.queue_ids) for mapping in route.mappings}
    return tuple(
        sorted(
            MessageQueue(route.topic, data.broker_name, queue_id)
            for data in route.queue_data
            if data.is_writable and data.broker_name in with_master
            for queue_id in (logical.get(data.broker_name, ()) if route.is_static else range(data.write_queue_count))
        )
    )


def _ordered(order_conf: str) -> Iterator[tuple[str, int]]:
    for part in order_conf.split(";"):
        broker_name, _, count = part.partition(":")
        if broker_name and count.isascii() and count.isdigit() and len(count) <= 4:
            yield broker_name, int(count)


def next_queue(
    queues: Sequence[MessageQueue], turn: int, *, avoided_broker: str | None = None
) -> tuple[MessageQueue, int]:
    """Return the queue whose turn it is, and the next turn; a failed broker is avoided where possible.

    Source: TopicPublishInfo.selectOneMessageQueue.
    """
    for step in range(len(queues)):
        mq = queues[(turn + step) % len(queues)]
        if mq.broker_name != avoided_broker:
            return mq, turn + step + 1
    return queues[turn % len(queues)], turn + 1


def queue_of_key(queues: Sequence[MessageQueue], sharding_key: str) -> MessageQueue:
    """Return the queue for all messages with a sharding key. Source: SelectMessageQueueByHash."""
    return queues[abs(hash_code(sharding_key)) % len(queues)]


def split_batches(sizes: Iterable[int], *, max_bytes: int, max_count: int) -> Iterator[slice]:
    """Split messages into batches by their sizes in bytes; a message larger than `max_bytes` is its own batch."""
    first = at = filled_bytes = 0
    for at, size_bytes in enumerate(sizes):
        if at > first and (filled_bytes + size_bytes > max_bytes or at - first == max_count):
            yield slice(first, at)
            first, filled_bytes = at, 0
        filled_bytes += size_bytes
    if filled_bytes:
        yield slice(first, at + 1)
