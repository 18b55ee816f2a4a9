"""Find the groups that have dead letters, and count them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.retention import fetch_retention_ms
from rmqctl.admin.brokers.tables import fetch_configs, fetch_topic_configs, note_configs
from rmqctl.admin.messages.time_search import find_first_since
from rmqctl.admin.results import Answers, ask_all, ask_any, by_broker_name, pick, unread_brokers
from rmqctl.admin.topics.stats import fetch_topic_stats
from rmqctl.client.core import Client
from rmqctl.client.partial_answers import slave_failures
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.names import DLQ_PREFIX, dead_letter_topic, is_system_group
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.model.topic import TopicConfig
from rmqctl.protocol import headers
from rmqctl.rules.cluster_memory import may_hold
from rmqctl.text.wildcards import matching


class HeldLetters(Struct, frozen=True):
    """A group's dead letters on one broker. None: unknown; for the times also: no dead letters.

    `new_count`: stored since the requested time. `retention_ms`: how long the broker keeps a message at least.
    `error`: why the broker could not be read.
    """

    broker_name: str
    config: TopicConfig | None = None
    count: int | None = None
    new_count: int | None = None
    oldest_at_ms: int | None = None
    newest_at_ms: int | None = None
    retention_ms: int | None = None
    error: RmqctlError | None = None

    @property
    def kept_until_ms(self) -> int | None:
        """The time until which the oldest one is kept at least, by the broker's clock."""
        if self.oldest_at_ms is None or self.retention_ms is None:
            return None
        return self.oldest_at_ms + self.retention_ms


class GroupLetters(Struct, frozen=True):
    """A group's dead letters, by broker; empty without a dead-letter topic."""

    group: str
    held: tuple[HeldLetters, ...]


class LetterList(Struct, frozen=True):
    """Groups sorted by name, what could not be read, and how many empty dead-letter topics were left out."""

    groups: tuple[GroupLetters, ...]
    failures: tuple[Failure, ...]
    empty_count: int = 0


async def fetch_letter_list(client: Client, patterns: Sequence[str], *, since_ms: int, among: str = "*") -> LetterList:
    """Return the groups that have, or may have, dead letters; with patterns all matching groups, also without any.

    `among` is a pattern of the groups to consider, for example those of a namespace. Dead letters stored since
    `since_ms` are new. Raises NotFoundError for a pattern or name that matches no group, and the brokers' error when
    none of them answers.
    """
    cluster = await fetch_cluster(client)
    tables = await ask_any(cluster.brokers, lambda broker: fetch_topic_configs(client, broker))
    if not tables.failed:
        note_configs(client, tables.ok)
    topics = {topic for table in tables.ok.values() for topic in table if topic.startswith(DLQ_PREFIX)}
    having = {topic.removeprefix(DLQ_PREFIX) for topic in topics}
    wanted = await _pick(client, patterns, having, tables) if patterns else matching([among], having)
    held: dict[str, list[HeldLetters]] = {group: [] for group in wanted}
    places = [
        (broker, group)
        for group in wanted
        for broker, table in tables.ok.items()
        if dead_letter_topic(group) in table
    ]  # fmt: skip
    answers = await ask_all(
        places, lambda place: _fetch_held(client, place[0], tables.ok[place[0]][dead_letter_topic(place[1])], since_ms)
    )
    failures = [Failure(broker.broker_name, "dead-letter topics", error) for broker, error in tables.failed.items()]
    for broker, group in places:
        error = answers.failed.get((broker, group))
        if error is not None:
            failures.append(Failure(broker.broker_name, f"dead letters of {group}", error))
        held[group].append(answers.ok.get((broker, group)) or HeldLetters(broker.broker_name, error=error))
    for broker, error in tables.failed.items():
        for group, found in held.items():
            if broker.absence is None or may_hold(dead_letter_topic(group), broker.broker_name, client.expectation):
                found.append(HeldLetters(broker.broker_name, error=error))
    for broker, table in tables.ok.items():
        # A slave may not have copied the topic yet.
        silence = client.silent_masters.get(broker.broker_name)
        for group, found in held.items() if silence is not None else ():
            if dead_letter_topic(group) not in table:
                found.append(HeldLetters(broker.broker_name, error=silence))
    failures += await _add_retention(client, tables.ok, held)
    rows = [GroupLetters(group, tuple(found)) for group, found in held.items()]
    shown = rows if patterns else [row for row in rows if any(each.count != 0 for each in row.held)]
    return LetterList(tuple(shown), (*failures, *slave_failures(client)), len(rows) - len(shown))


async def _pick(
    client: Client, patterns: Sequence[str], having: set[str], tables: Answers[BrokerData, dict[str, TopicConfig]]
) -> tuple[str, ...]:
    configs = await fetch_configs(client, {broker.broker_name: broker for broker in tables.ok})
    known = having | {name for table in configs.ok.values() for name in table if not is_system_group(name)}
    return pick("Group", patterns, known, unread_brokers(client, by_broker_name(tables.failed) | dict(configs.failed)))


async def _fetch_held(client: Client, broker: BrokerData, config: TopicConfig, since_ms: int) -> HeldLetters:
    stats = await fetch_topic_stats(client, broker, config.topic)
    filled = {} if stats is None else {id_: each for id_, each in stats.queues.items() if each.message_count}
    held = HeldLetters(broker.broker_name, config, sum(each.message_count for each in filled.values()), 0)
    if not filled:
        return held
    newest = max((each.last_update_at_ms or 0 for each in filled.values()), default=0) or None
    answers = await asyncio.gather(
        *(client.ask_broker(broker, headers.get_earliest_store_time(config.topic, queue_id)) for queue_id in filled)
    )
    oldest = [at_ms for answer in answers if (at_ms := headers.int_field(answer.command, "timestamp")) > 0]
    new_count: int | None = 0
    if newest is None or newest >= since_ms:
        addresses = [answer.address for answer in answers]
        new_count = await _count_new(client, broker.broker_name, config, filled, addresses, since_ms)
    return replace(held, new_count=new_count, oldest_at_ms=min(oldest, default=None), newest_at_ms=newest)


async def _count_new(
    client: Client, broker_name: str, config: TopicConfig, queues: Mapping[int, TopicOffset], addresses: Sequence[str],
    since_ms: int,
) -> int | None:  # fmt: skip
    """Return how many were stored since a time; None for a write-only topic, whose messages cannot be read."""
    if not config.is_readable:
        return None
    counts = await asyncio.gather(
        *(
            _count_since(client, address, MessageQueue(config.topic, broker_name, queue_id), queue, since_ms)
            for (queue_id, queue), address in zip(queues.items(), addresses, strict=True)
        )
    )
    return sum(counts)


async def _count_since(client: Client, address: str, mq: MessageQueue, queue: TopicOffset, since_ms: int) -> int:
    first, _ = await find_first_since(client, address, mq, since_ms, queue.min_offset, queue.max_offset)
    return 0 if first is None else queue.max_offset - first.queue_offset


async def _add_retention(
    client: Client, tables: Mapping[BrokerData, object], held: Mapping[str, list[HeldLetters]]
) -> list[Failure]:
    """Add the retention of the brokers that have dead letters. Return the failures."""
    names = {each.broker_name for found in held.values() for each in found if each.count}
    answers = await ask_all(
        [broker for broker in tables if broker.broker_name in names],
        lambda broker: fetch_retention_ms(client, broker),
    )
    kept_ms = {broker.broker_name: kept for broker, kept in answers.ok.items()}
    for found in held.values():
        found[:] = [replace(each, retention_ms=kept_ms.get(each.broker_name)) for each in found]
    return [Failure(broker.broker_name, "retention", error) for broker, error in answers.failed.items()]
