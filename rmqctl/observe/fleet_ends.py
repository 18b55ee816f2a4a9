"""Reads the stored offsets of all groups and the ends of their queues, broker by broker, with few requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import OffsetWrapper, TopicOffset
from rmqctl.protocol import bodies, headers

from .masters import PacedMasters

# How long a min offset is used. It only grows, so the lag may be less than it shows.
_MIN_OFFSET_S = 300.0

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and queue id."""


class StoredTable(Struct, frozen=True):
    """The stored offsets of one broker by group, and the broker's version."""

    groups: Mapping[str, Offsets]
    version: int


class QueueEnd(Struct, frozen=True):
    """The end of a queue; `min_offset` is None when it was not asked for."""

    max_offset: int
    min_offset: int | None = None


class BrokerEnds(Struct, frozen=True):
    """The ends of the queues of one broker, by topic. `failed` is why a topic's are missing.

    `consumed` are the offsets of the same moment by group, if the broker reported them: all topics that the group
    consumes there, None otherwise.
    """

    topics: Mapping[str, Mapping[MessageQueue, QueueEnd]]
    failed: Mapping[str, RmqctlError] = {}
    consumed: Mapping[str, Mapping[MessageQueue, OffsetWrapper]] | None = None


class FleetReading(Struct, frozen=True):
    """What one round read: stored offsets and ends by broker, and why brokers were not read.

    `cut` are, by broker, the ends of queues with stored offsets that no consumer can read.
    """

    stored: Mapping[str, StoredTable]
    ends: Mapping[str, BrokerEnds]
    failed: Mapping[str, RmqctlError]
    cut: Mapping[str, Mapping[MessageQueue, TopicOffset]] = {}
    cut_failures: Sequence[Failure] = ()

    def failures(self) -> list[Failure]:
        """Return what was not read."""
        failures = [Failure(name, "offsets", error) for name, error in self.failed.items()]
        for name, ends in self.ends.items():
            failures += [Failure(name, "ends of queues", error) for error in ends.failed.values()]
        return [*failures, *self.cut_failures]


class EndReader:
    """Reads brokers. With more than `most_topics` topics, one request returns the ends of all queues."""

    def __init__(self, masters: PacedMasters, most_topics: int) -> None:
        self._masters = masters
        self._most_topics = most_topics
        self._min_offsets: dict[tuple[str, str], tuple[float, dict[MessageQueue, TopicOffset]]] = {}

    async def read_stored(self, broker: BrokerData, is_wanted: Callable[[str], bool]) -> StoredTable:
        """Return the offsets of the wanted groups."""
        answer = await self._masters.ask(broker, headers.get_all_consumer_offsets())
        groups = bodies.decode_consumer_offsets(answer.body).groups
        return StoredTable({group: topics for group, topics in groups.items() if is_wanted(group)}, answer.version)

    async def read_ends(self, broker: BrokerData, stored: StoredTable, topics: Iterable[str]) -> BrokerEnds:
        """Return the ends of the queues of these topics. Raises the broker's error if all are read at once."""
        wanted = sorted(topics)
        if len(wanted) > self._most_topics:
            return await self._read_all(broker, stored)
        ends: dict[str, dict[MessageQueue, QueueEnd]] = {}
        failed: dict[str, RmqctlError] = {}
        for number, topic in enumerate(wanted):
            try:
                found = await self._masters.topic_offsets(broker, topic)
            except UnreachableError as error:
                failed |= dict.fromkeys(wanted[number:], error)
                break
            except RmqctlError as error:
                failed[topic] = error
                continue
            ends[topic] = {mq: QueueEnd(each.max_offset, each.min_offset) for mq, each in found.items()}
        return BrokerEnds(ends, failed)

    async def _read_all(self, broker: BrokerData, stored: StoredTable) -> BrokerEnds:
        answer = await self._masters.ask(broker, headers.get_broker_consume_stats())
        consumed = bodies.decode_broker_consume_stats(stored.groups.__contains__, answer.body)
        ends: defaultdict[str, dict[MessageQueue, QueueEnd]] = defaultdict(dict)
        doubtful: set[str] = set()
        for queues in consumed.values():
            for mq, each in queues.items():
                ends[mq.topic][mq] = QueueEnd(each.broker_offset, 0 if each.broker_offset == 0 else None)
                # Messages that are not consumed may have been deleted, unless the message before them still exists.
                if each.last_timestamp_ms is None and each.consumer_offset < each.broker_offset:
                    doubtful.add(mq.topic)
        for mq, min_offset in (await self._min_offsets_of(broker, sorted(doubtful))).items():
            end = ends[mq.topic].get(mq)
            if end is not None and min_offset <= end.max_offset:
                ends[mq.topic][mq] = QueueEnd(end.max_offset, min_offset)
        return BrokerEnds(ends, consumed=consumed)

    async def _min_offsets_of(self, broker: BrokerData, topics: Sequence[str]) -> dict[MessageQueue, int]:
        """Return min offsets of these topics, of which some are read now."""
        now_s = self._masters.client.clock.monotonic_s()
        self._min_offsets = {place: kept for place, kept in self._min_offsets.items() if kept[0] > now_s}
        unread = [topic for topic in topics if (broker.broker_name, topic) not in self._min_offsets]
        for topic in unread[: max(1, self._most_topics // 2)]:
            try:
                found = await self._masters.topic_offsets(broker, topic)
            except RmqctlError:
                break  # the lag stays unknown
            self._min_offsets[broker.broker_name, topic] = now_s + _MIN_OFFSET_S, found
        return {
            mq: each.min_offset
            for topic in topics
            for mq, each in self._min_offsets.get((broker.broker_name, topic), (0.0, {}))[1].items()
        }
