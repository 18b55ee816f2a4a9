"""Reads details of the backlog: messages that filters leave out, replicas to read from, and overdue redeliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import settings_once
from rmqctl.admin.messages.pull import fetch_source_id, fetch_tag_codes
from rmqctl.admin.messages.revive_log import fetch_unrevived
from rmqctl.admin.results import ask_all
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.group import CPP
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import MASTER_ID, BrokerData
from rmqctl.protocol.versions import V5_0_0
from rmqctl.rules.group_state import unheard
from rmqctl.rules.message_filters.tags import tag_code
from rmqctl.rules.pop_checkpoints import UnrevivedRecords
from rmqctl.text.words import listed

from .facts import FilterSample, GroupFacts

# A topic's filter is sampled in the queues with the largest lag, at the first messages and at the last ones.
_SAMPLED_QUEUES, _SLICE = 2, 64
# With a smaller lag, members soon pass the messages that the filter leaves out.
_LEAST_LAG = 50
_SLAVES = "slaveReadEnable"


_K = TypeVar("_K")


class BacklogReading(Struct, frozen=True):
    """A group's facts with details of its backlog. `unknown` is the reason why some of them are missing."""

    facts: GroupFacts
    failures: tuple[Failure, ...] = ()
    unknown: str | None = None


async def read_backlog(client: Client, facts: GroupFacts, brokers: Mapping[str, BrokerData]) -> BacklogReading:
    """Read the backlog details of a group with members. Each broker is asked only once for its own values."""
    has_cpp = any(CPP in member.languages for member in facts.members)
    popping = facts.popping
    by_sql = any(
        item.expression_type != "TAG"
        for by_name in (*facts.wanted().values(), *facts.filtered().values())
        for item in by_name.values()
    )
    if not facts.is_online or not (popping or has_cpp or by_sql or any(row.lag for row in facts.rows)):
        return BacklogReading(facts)  # accounts without the right to read settings do not need it for these groups
    settings = await ask_all(facts.connections, lambda name: settings_once(client, brokers[name]))
    # Older brokers do not support pop.
    popped = [name for name in settings.ok if popping and facts.broker_versions.get(name, 0) >= V5_0_0]
    hidden = [name for name in popped if settings.ok[name].get("popConsumerKVServiceEnable") == "true"]
    rows = {row.mq: row for row in facts.rows if row.lag and row.mq.broker_name in settings.ok}
    # Messages are popped from masters only.
    pulled = {mq: row for mq, row in rows.items() if not facts.is_popped(mq)} if facts.sharers or not popping else {}
    moving = [name for name, config in settings.ok.items() if config.get(_SLAVES) == "true"]
    masters = {name: address for name in moving if (address := brokers[name].master_address) is not None}

    async def unrevived(name: str) -> UnrevivedRecords:
        return await client.once(("unrevived", name), lambda: fetch_unrevived(client, brokers[name]))

    async def tag_codes(place: tuple[MessageQueue, int]) -> tuple[int, ...]:
        return await fetch_tag_codes(client, brokers[place[0].broker_name], *place, _SLICE)

    async def source_id(mq: MessageQueue) -> int:
        return await fetch_source_id(client, masters[mq.broker_name], mq, _next_offset(rows[mq]))

    behind, codes, sources = await asyncio.gather(
        ask_all([name for name in popped if name not in hidden], unrevived),
        ask_all(_slices(facts, rows), tag_codes),
        ask_all(_farthest(pulled, masters), source_id),
    )
    failures = [
        *_failures("settings", settings.failed, lambda name: name),
        *_failures("records of pops", behind.failed, lambda name: name),
        *_failures("entries of its index", codes.failed, lambda place: place[0].broker_name),
        *_failures("where to read from", sources.failed, lambda mq: mq.broker_name),
    ]
    reasons = [*unheard(((each.broker_name or "", each.error) for each in failures), "did not answer every request")]
    reasons += [f"{listed(hidden)} stores pops where they cannot be read"] * bool(hidden)
    return BacklogReading(
        replace(
            facts,
            broker_settings=settings.ok,
            unrevived=behind.ok,
            filter_samples=_samples(facts, codes.ok),
            read_elsewhere={mq: broker_id for mq, broker_id in sources.ok.items() if broker_id != MASTER_ID},
        ),
        tuple(failures),
        ", ".join(reasons) or None,
    )


def _failures(what: str, failed: Mapping[_K, RmqctlError], broker_of: Callable[[_K], str]) -> Iterator[Failure]:
    """Make one failure per broker, of the first request of a kind that failed."""
    yield from {broker_of(key): Failure(broker_of(key), what, error) for key, error in failed.items()}.values()


def _next_offset(row: QueueProgress) -> int:
    return max(row.consumer_offset or 0, row.min_offset or 0)


def _farthest(rows: Mapping[MessageQueue, QueueProgress], broker_names: Collection[str]) -> list[MessageQueue]:
    """Return the queue with the largest lag for each topic at each of the brokers."""
    farthest: dict[tuple[str, str], MessageQueue] = {}
    for row in _by_lag(rows):
        if row.mq.broker_name in broker_names:
            farthest.setdefault((row.mq.topic, row.mq.broker_name), row.mq)
    return list(farthest.values())


def _slices(facts: GroupFacts, rows: Mapping[MessageQueue, QueueProgress]) -> list[tuple[MessageQueue, int]]:
    """Return the queues and offsets at which to read tags, of topics where all members want the same ones."""
    by_topic: dict[str, list[QueueProgress]] = {}
    for row in _by_lag(rows):
        by_topic.setdefault(row.mq.topic, []).append(row)
    places: list[tuple[MessageQueue, int]] = []
    for topic in _wanted_codes(facts):
        own = by_topic.get(topic, [])
        if sum(row.lag or 0 for row in own) < _LEAST_LAG:
            continue
        for row in own[:_SAMPLED_QUEUES]:
            first, lag = _next_offset(row), row.lag or 0
            places.append((row.mq, first))
            if lag > _SLICE:
                places.append((row.mq, first + max(_SLICE, lag - _SLICE)))
    return places


def _by_lag(rows: Mapping[MessageQueue, QueueProgress]) -> list[QueueProgress]:
    own = [row for row in rows.values() if not row.mq.topic.startswith(RETRY_PREFIX)]
    return sorted(own, key=lambda row: -(row.lag or 0))


def _wanted_codes(facts: GroupFacts) -> dict[str, frozenset[int]]:
    """Return the tag hashes that members want, of topics where all want the same tags but not all tags."""
    wanted: dict[str, frozenset[int]] = {}
    for topic, by_client in facts.wanted().items():
        (kind, text), *others = {item.filter_key for item in by_client.values()}
        if not others and kind == "TAG" and text != "*":
            wanted[topic] = frozenset(map(tag_code, text.split("||")))
    return wanted


def _samples(facts: GroupFacts, codes: Mapping[tuple[MessageQueue, int], tuple[int, ...]]) -> dict[str, FilterSample]:
    """Count by topic the sampled messages, and those of them that pass the filter."""
    wanted = _wanted_codes(facts)
    samples: dict[str, FilterSample] = {}
    for (mq, _), found in codes.items():
        before = samples.get(mq.topic, FilterSample())
        passing = sum(code in wanted[mq.topic] for code in found)
        samples[mq.topic] = FilterSample(before.count + len(found), before.passing_count + passing)
    return samples
