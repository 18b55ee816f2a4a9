"""Count the dead letters of groups and read the newest's time: one request per broker and dead-letter topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from rmqctl.admin.results import ask_all
from rmqctl.admin.topics.stats import fetch_queue_offsets
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.names import dead_letter_topic
from rmqctl.model.route import BrokerData

from .tables import GroupTables

# For a list of groups. In clusters with more of these topics, most belong to groups that are not used any more.
_MOST_REQUESTS = 200


class LetterCount(Struct, frozen=True):
    """The stored dead letters. `last_at_ms` is when the newest was stored by its broker's clock, None if unknown.

    `has_topic`: a broker has the dead-letter topic, perhaps without messages.
    """

    count: int = 0
    last_at_ms: int | None = None
    has_topic: bool = False


class LetterCounts(Struct, frozen=True):
    """The dead letters of the requested groups. `failed` is by broker and dead-letter topic."""

    by_group: Mapping[str, LetterCount]
    failed: Mapping[tuple[BrokerData, str], RmqctlError]


def sum_letters(counts: Iterable[LetterCount]) -> LetterCount:
    """Return the sum over several brokers."""
    every = list(counts)
    last_at_ms = max((each.last_at_ms for each in every if each.last_at_ms is not None), default=None)
    return LetterCount(sum(each.count for each in every), last_at_ms, any(each.has_topic for each in every))


async def count_letters(client: Client, broker: BrokerData, group: str) -> LetterCount:
    """Return a group's dead letters on a broker."""
    queues = (await fetch_queue_offsets(client, broker, dead_letter_topic(group))).values()
    return sum_letters(LetterCount(queue.message_count, queue.last_update_at_ms, has_topic=True) for queue in queues)


async def fetch_letters(
    client: Client, tables: Mapping[BrokerData, GroupTables], groups: Sequence[str]
) -> LetterCounts:
    """Count the dead letters of groups, in this order, with a bounded number of requests.

    Only brokers with the group's dead-letter topic are asked. Groups beyond the bound are missing from the result.
    """
    places: list[tuple[BrokerData, str]] = []
    chosen: list[str] = []
    for group in groups:
        own = [(broker, group) for broker, table in tables.items() if dead_letter_topic(group) in (table.topics or {})]
        if len(places) + len(own) <= _MOST_REQUESTS:
            places += own
            chosen.append(group)
    answers = await ask_all(places, lambda place: count_letters(client, *place))
    counts: dict[str, list[LetterCount]] = {group: [] for group in chosen}
    for (_, group), count in answers.ok.items():
        counts[group].append(count)
    return LetterCounts(
        {group: sum_letters(each) for group, each in counts.items()},
        {(broker, dead_letter_topic(group)): error for (broker, group), error in answers.failed.items()},
    )
