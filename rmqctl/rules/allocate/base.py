"""Common parts of all strategies: the form of the result, input that they refuse, and the order of input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

from rmqctl.model.queue import MessageQueue

# Client id -> its queues, in the order in which RocketMQ's class returns them. Duplicate ids are one key.
Assignment = dict[str, list[MessageQueue]]
Allocate = Callable[[Sequence[MessageQueue], Sequence[str]], Assignment]


_QUEUE_ID = itemgetter(2)


class AllocationError(ValueError):
    """A strategy cannot allocate these queues, or not with these options; the text is a sentence that names the item.

    `hint` says what to do about it; None when the sentence is enough.
    """

    def __init__(self, text: str = "", *, hint: str | None = None) -> None:
        super().__init__(text)
        self.hint = hint


def check(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> None:
    """Raise AllocationError for input that RocketMQ refuses (AbstractAllocateMessageQueueStrategy.check)."""
    if not queues:
        raise AllocationError("There are no queues to allocate.")
    if not client_ids:
        raise AllocationError("There are no clients to allocate the queues to.")


def require_ids(client_ids: Sequence[str]) -> None:
    """Raise AllocationError for a client without an id, as RocketMQ's strategies refuse it."""
    if not all(client_ids):
        raise AllocationError("A client id is empty.")


def java_order(text: str) -> bytes:
    """Return a key that sorts texts as Java does, by UTF-16 units (String.compareTo)."""
    return text.encode("utf-16-be", "surrogatepass")


def sort_client_ids(client_ids: Iterable[str]) -> list[str]:
    """Sort ids as clients do before they allocate (RebalanceImpl)."""
    ids = list(client_ids)
    return sorted(ids) if "".join(ids).isascii() else sorted(ids, key=java_order)


def sort_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Sort queues as clients do before they allocate (MessageQueue.compareTo: topic, broker, queue id)."""
    # Names are compared once per broker, not once per queue.
    places: dict[tuple[str, str], list[MessageQueue]] = {}
    for queue in queues:
        places.setdefault(queue[:2], []).append(queue)
    is_ascii = all(topic.isascii() and broker_name.isascii() for topic, broker_name in places)
    order = (
        sorted(places) if is_ascii else sorted(places, key=lambda place: (java_order(place[0]), java_order(place[1])))
    )
    for place in order:
        places[place].sort(key=_QUEUE_ID)
    return [queue for place in order for queue in places[place]]
