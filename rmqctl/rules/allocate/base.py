"""What all strategies share: the form of their answer, what they refuse, and the order of what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rmqctl.model.queue import MessageQueue

# Client id -> its queues, in the order in which RocketMQ's class returns them. Ids that stand twice are one key.
Assignment = dict[str, list[MessageQueue]]
Allocate = Callable[[Sequence[MessageQueue], Sequence[str]], Assignment]


class AllocationError(ValueError):
    """A strategy can't share these queues, or not with these options; the text is a sentence that names the item."""


def check(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> None:
    """Refuse what RocketMQ's strategies refuse (AbstractAllocateMessageQueueStrategy.check). Raises AllocationError."""
    if not queues:
        raise AllocationError("There are no queues to share.")
    if not client_ids:
        raise AllocationError("There are no clients to share the queues.")
    if not all(client_ids):
        raise AllocationError("A client id is empty.")


def java_order(text: str) -> bytes:
    """Return a key that sorts texts as Java does, by UTF-16 units (String.compareTo)."""
    return text.encode("utf-16-be", "surrogatepass")


def sort_client_ids(client_ids: Iterable[str]) -> list[str]:
    """Sort ids as clients do before they share (RebalanceImpl)."""
    ids = list(client_ids)
    return sorted(ids) if "".join(ids).isascii() else sorted(ids, key=java_order)


def sort_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Sort queues as clients do before they share (MessageQueue.compareTo: topic, broker, queue id)."""
    every = list(queues)
    if "".join({name for queue in every for name in queue[:2]}).isascii():
        return sorted(every)
    return sorted(every, key=lambda queue: (java_order(queue.topic), java_order(queue.broker_name), queue.queue_id))
