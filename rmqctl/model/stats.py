"""What brokers report about offsets: one class for each kind of answer."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from .queue import MessageQueue


class OffsetWrapper(Struct, frozen=True):
    """One queue in an answer of GET_CONSUME_STATS (OffsetWrapper).

    `consumer_offset` 0 may mean that nothing is stored; brokers before 5.0 do not report `pull_offset`;
    `last_timestamp_ms` is the store time of the last consumed message, None when the broker does not know it.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int | None
    last_timestamp_ms: int | None


class ConsumeStats(Struct, frozen=True):
    """Answer of GET_CONSUME_STATS: messages pulled per second over the last minute, and every queue (ConsumeStats)."""

    consume_tps: float
    queues: Mapping[MessageQueue, OffsetWrapper]


class TopicOffset(Struct, frozen=True):
    """One queue in an answer of GET_TOPIC_STATS_INFO; `max_offset` is the next one to be written (TopicOffset)."""

    min_offset: int
    max_offset: int
    last_update_at_ms: int | None

    @property
    def message_count(self) -> int:
        """The number of messages in the queue."""
        return max(0, self.max_offset - self.min_offset)


class ConsumeTimeSpan(Struct, frozen=True):
    """One queue in an answer of QUERY_CONSUME_TIME_SPAN (QueueTimeSpan), reduced to what can be concluded from it.

    `head_age_ms`: how long ago the broker stored the first unread message; 0 when nothing is unread; None when unknown.
    `oldest_age_ms`: the same for the oldest message that is left, known only when the broker's clock is.
    `are_times_rising`: the oldest, the last consumed and the newest message were stored in this order.
    """

    head_age_ms: int | None
    oldest_age_ms: int | None
    are_times_rising: bool = True


class StoredOffsets(Struct, frozen=True):
    """Answer of GET_ALL_CONSUMER_OFFSET: group to topic to queue id to offset. The only reliable test on 4.9.

    `emptied` are the groups with an entry below 0 at the broker, which is not an offset; they may have others.
    """

    groups: Mapping[str, Mapping[str, Mapping[int, int]]]
    emptied: frozenset[str] = frozenset()
