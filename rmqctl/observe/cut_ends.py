"""Reads the ends of queues that have stored offsets although no consumer can read them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rmqctl.admin.groups.rules.backlog import count_unread
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.model.stats import TopicOffset
from rmqctl.protocol import headers
from rmqctl.rules.readable_queues import is_unreadable

from .fleet_ends import BrokerEnds, Offsets, StoredTable
from .masters import PacedMasters

# Nothing is written to most of these queues, and their stored offsets stay.
_KEPT_S = 300.0


class CutReader:
    """Reads brokers; at most `most_queues` queues at once, the others later."""

    def __init__(self, masters: PacedMasters, most_queues: int) -> None:
        self._masters = masters
        self._most_queues = most_queues
        # None: consumers can read it, or its topic is gone.
        self._kept: dict[MessageQueue, tuple[float, TopicOffset | None]] = {}

    async def read_all(
        self, brokers: Mapping[str, BrokerData], stored: Mapping[str, StoredTable], ends: Mapping[str, BrokerEnds]
    ) -> tuple[dict[str, dict[MessageQueue, TopicOffset]], list[Failure]]:
        """Return the min and max offsets of these queues by broker, and the failures."""
        found: dict[str, dict[MessageQueue, TopicOffset]] = {}
        failures: list[Failure] = []
        for name in ends:
            cut, error = await self._read(brokers[name], stored[name], ends[name])
            if cut:
                found[name] = cut
            failures += [Failure(name, "ends of queues", error)] if error is not None else []
        return found, failures

    async def _read(
        self, broker: BrokerData, stored: StoredTable, ends: BrokerEnds
    ) -> tuple[dict[MessageQueue, TopicOffset], RmqctlError | None]:
        now_s = self._masters.client.clock.monotonic_s()
        queues = sorted(_find(broker.broker_name, stored, ends))
        known = {mq: self._kept[mq] for mq in queues if mq in self._kept}
        due = [mq for mq in queues if mq not in known or known[mq][0] <= now_s]
        failed: RmqctlError | None = None
        try:
            for mq in due[: self._most_queues]:
                known[mq] = self._kept[mq] = now_s + _KEPT_S, await self._ask(broker, mq)
        except RmqctlError as error:
            failed = error
        return {mq: end for mq, (_, end) in known.items() if end is not None}, failed

    async def _ask(self, broker: BrokerData, mq: MessageQueue) -> TopicOffset | None:
        try:
            if not is_unreadable(mq, await self._masters.client.fresh_route(mq.topic)):
                return None
        except NotFoundError:
            return None
        lowest = await self._masters.ask(broker, headers.get_min_offset(mq.topic, mq.queue_id))
        highest = await self._masters.ask(broker, headers.get_max_offset(mq.topic, mq.queue_id))
        return TopicOffset(headers.int_field(lowest, "offset"), headers.int_field(highest, "offset"), None)


def count_cut(
    cut: Mapping[str, Mapping[MessageQueue, TopicOffset]], stored: Mapping[str, Offsets], topics: Collection[str]
) -> dict[MessageQueue, int]:
    """Return a group's unread messages in these queues; `stored` are its offsets by broker."""
    return {
        mq: count
        for name, topic_offsets in stored.items()
        for mq, end in cut[name].items()
        if mq.topic in topics and (offset := topic_offsets.get(mq.topic, {}).get(mq.queue_id)) is not None
        if (count := count_unread(end, offset))
    }


def _find(broker_name: str, stored: StoredTable, ends: BrokerEnds) -> set[MessageQueue]:
    """Return the queues with stored offsets that the broker does not report with their topics."""
    offsets = {
        MessageQueue(topic, broker_name, queue_id)
        for topics in stored.groups.values()
        for topic, queues in topics.items()
        if ends.topics.get(topic)
        for queue_id in queues
    }
    return offsets - {mq for reported in ends.topics.values() for mq in reported}
