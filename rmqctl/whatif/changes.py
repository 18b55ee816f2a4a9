"""Changes to a group: clients, queues and brokers that are added or removed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import sort_client_ids
from rmqctl.text.names import closest

from .group_snapshot import ID_LIMIT, GroupSnapshot

# Sort after and before all names of real clients and brokers.
LAST, FIRST = "~", "!"
# More than any real group has, and still small enough for memory.
MOST = 1_000_000
_QUEUE_CHANGE = re.compile(r"([+=-])(\d{1,6})", re.ASCII)


class QueueChange(Struct, frozen=True):
    """A change of the number of a topic's queues per broker: `count` more, `count` fewer, or exactly `count`."""

    sign: Literal["+", "-", "="]
    count: int

    def apply(self, queue_ids: Sequence[int]) -> list[int]:
        """Return a broker's queue ids after the change, which adds or removes at the end. Raises UsageError."""
        if self.sign == "=":
            return list(range(self.count))
        if self.sign == "+":
            if max(queue_ids) + self.count >= ID_LIMIT:
                text = f"there are not enough ids after queue {max(queue_ids)}."
                raise UsageError(f"--queues +{self.count}: {text}")
            return [*queue_ids, *range(max(queue_ids) + 1, max(queue_ids) + 1 + self.count)]
        return sorted(queue_ids)[: max(0, len(queue_ids) - self.count)]


class TrialChanges(Struct, frozen=True):
    """The requested changes. New clients and brokers are names, or numbers of unnamed ones.

    `new_prefix` starts the names given to unnamed ones: their sort order decides which queues move.
    """

    add_clients: tuple[str | int, ...] = ()
    remove_clients: tuple[str | int, ...] = ()
    add_brokers: tuple[str | int, ...] = ()
    remove_brokers: tuple[str, ...] = ()
    queues: QueueChange | None = None
    new_prefix: str = LAST

    @property
    def is_nothing(self) -> bool:
        """Whether nothing changes."""
        return not (
            self.add_clients or self.remove_clients or self.add_brokers or self.remove_brokers or self.queues
        )  # fmt: skip

    @property
    def has_unnamed(self) -> bool:
        """Whether clients or brokers without a known name are added."""
        return any(isinstance(item, int) for item in (*self.add_clients, *self.add_brokers))


def parse_queue_change(text: str) -> QueueChange:
    """Parse +4, -2 or =16. Raises UsageError."""
    match = _QUEUE_CHANGE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"Invalid --queues {text!r}.", hint="Use for example +4, -2 or =16, for each broker.")
    return QueueChange(match[1], int(match[2]))  # type: ignore[arg-type]


def parse_names_or_count(option: str, words: Iterable[str]) -> tuple[str | int, ...]:
    """Parse words, each of which is a name or a number of unnamed things. Raises UsageError."""
    found: list[str | int] = []
    for word in words:
        text = word.strip()
        if not text:
            raise UsageError(f"{option} has neither a name nor a number.", hint=f"Use for example {option} 2.")
        if text.isascii() and text.isdigit():
            count = int(text.lstrip("0")[:10] or "0")
            if not 0 < count <= MOST:
                raise UsageError(f"{option} {text}: the number must be 1 to {MOST}.")
            found.append(count)
        else:
            found.append(text)
    return tuple(found)


def apply_changes(snapshot: GroupSnapshot, changes: TrialChanges) -> GroupSnapshot:
    """Return the group after the changes. Raises NotFoundError or UsageError for impossible ones."""
    client_ids = _change_clients(snapshot.client_ids, changes)
    queues = _change_queues(snapshot.queues, changes)
    if not client_ids:
        raise UsageError("No client would be left.", hint="Remove fewer, or add others with --add-clients.")
    if not queues:
        raise UsageError("No queue would be left.", hint="Remove fewer, or add others with --add-brokers.")
    return GroupSnapshot(queues, client_ids, snapshot.live, snapshot.strangers)


def _change_clients(client_ids: tuple[str, ...], changes: TrialChanges) -> tuple[str, ...]:
    left = sort_client_ids(client_ids)
    for item in changes.remove_clients:
        if isinstance(item, int):
            if item > len(left):
                there = f"only {len(left)}" if left else "none"
                raise UsageError(f"--remove-clients {item}: there {'is' if len(left) == 1 else 'are'} {there}.")
            del left[len(left) - item :]
        elif item in left:
            left.remove(item)
        else:
            raise NotFoundError("Client", item, suggestions=closest(item, client_ids))
    _check_most("clients", len(left) + sum(item for item in changes.add_clients if isinstance(item, int)))
    named = {*left, *(item for item in changes.add_clients if isinstance(item, str))}
    free = _free_names(f"{changes.new_prefix}new-", named)
    for item in changes.add_clients:
        if isinstance(item, str):
            if item in left:
                raise UsageError(f"--add-clients {item}: this client already exists.")
            left.append(item)
            continue
        left += free(item)
    return tuple(left)


def _free_names(prefix: str, taken: Collection[str]) -> Callable[[int], list[str]]:
    """Return a function that creates a number of unused names, which sort in the order of their numbers."""
    numbers = itertools.count(1)

    def more(wanted: int) -> list[str]:
        names = (f"{prefix}{number:0{len(str(wanted))}}" for number in numbers)
        return list(itertools.islice((name for name in names if name not in taken), wanted))

    return more


def _change_queues(queues: tuple[MessageQueue, ...], changes: TrialChanges) -> tuple[MessageQueue, ...]:
    ids_by_place: dict[tuple[str, str], list[int]] = {}
    for queue in queues:
        ids_by_place.setdefault((queue.topic, queue.broker_name), []).append(queue.queue_id)
    brokers = {broker_name for _, broker_name in ids_by_place}
    for name in changes.remove_brokers:
        if name not in brokers:
            raise NotFoundError("Broker", name, suggestions=closest(name, brokers))
    largest: dict[str, list[int]] = {}
    for (topic, _), ids in ids_by_place.items():
        largest[topic] = max(largest.get(topic, []), ids, key=len)
    ids_by_place = {place: ids for place, ids in ids_by_place.items() if place[1] not in changes.remove_brokers}
    new = _new_brokers(brokers, changes)
    _check_most("queues", _queue_count(ids_by_place, changes) + len(new) * sum(map(len, largest.values())))
    # Removed brokers count as well: a new broker may replace the only one of a topic.
    ids_by_place |= {(topic, name): ids for topic, ids in largest.items() for name in new}
    if changes.queues is not None:
        _check_most("queues", _queue_count(ids_by_place, changes))
        for (topic, broker_name), ids in ids_by_place.items():
            # Brokers create retry topics according to the group's configuration.
            if not topic.startswith(RETRY_PREFIX):
                ids_by_place[topic, broker_name] = changes.queues.apply(ids)
    return tuple(MessageQueue(*place, queue_id) for place, ids in ids_by_place.items() for queue_id in ids)


def _new_brokers(brokers: set[str], changes: TrialChanges) -> list[str]:
    """Return the names of new brokers. Raises UsageError for one that exists."""
    names: list[str] = []
    named = {*brokers, *(item for item in changes.add_brokers if isinstance(item, str))}
    free = _free_names(f"{changes.new_prefix}new-broker-", named)
    for item in changes.add_brokers:
        if isinstance(item, str):
            if item in brokers or item in names:
                raise UsageError(f"--add-brokers {item}: this broker already exists.")
            names.append(item)
            continue
        _check_most("brokers", len(names) + item)
        names += free(item)
    return names


def _queue_count(ids_by_place: Mapping[tuple[str, str], Sequence[int]], changes: TrialChanges) -> int:
    """Return the largest possible number of queues."""
    more = 0 if changes.queues is None or changes.queues.sign == "-" else changes.queues.count
    return sum(len(ids) + more for ids in ids_by_place.values())


def _check_most(noun: str, count: int) -> None:
    """Raise UsageError for more than MOST, before memory runs out."""
    if count > MOST:
        raise UsageError(f"The change would give {count} {noun}: at most {MOST} are supported.")
