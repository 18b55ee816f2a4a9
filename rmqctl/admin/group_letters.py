"""How many dead letters groups have, and when the newest was stored: one request a broker and dead-letter topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.names import dead_letter_topic
from rmqctl.model.route import Broker

from .group_tables import GroupTables, fetch_topic
from .results import ask_all

# For a list of groups. Clusters with more of these topics have them mostly of groups that nobody uses.
_MOST_REQUESTS = 200


class LetterCount(Struct, frozen=True):
    """Dead letters that are kept. `last_at_ms` is when the newest was stored, by its broker's clock; None: unknown."""

    count: int = 0
    last_at_ms: int | None = None


class GroupLetters(Struct, frozen=True):
    """The dead letters of the groups that were asked for. `failed` is by broker and dead-letter topic."""

    by_group: Mapping[str, LetterCount]
    failed: Mapping[tuple[Broker, str], RmqctlError]


def sum_letters(counts: Iterable[LetterCount]) -> LetterCount:
    """Return the sum over several brokers."""
    every = list(counts)
    last_at_ms = max((each.last_at_ms for each in every if each.last_at_ms is not None), default=None)
    return LetterCount(sum(each.count for each in every), last_at_ms)


async def count_letters(client: Client, broker: Broker, group: str) -> LetterCount:
    """Return a broker's dead letters of a group."""
    queues = (await fetch_topic(client, broker, dead_letter_topic(group))).values()
    return sum_letters(
        LetterCount(max(0, queue.max_offset - queue.min_offset), queue.last_update_at_ms) for queue in queues
    )


async def fetch_letters(client: Client, tables: Mapping[Broker, GroupTables], groups: Sequence[str]) -> GroupLetters:
    """Count the dead letters of groups, in this order, with a bounded number of requests.

    Only brokers that have the group's dead-letter topic are asked. A group that is not counted is not in the answer.
    """
    places: list[tuple[Broker, str]] = []
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
    return GroupLetters(
        {group: sum_letters(each) for group, each in counts.items()},
        {(broker, dead_letter_topic(group)): error for (broker, group), error in answers.failed.items()},
    )
