"""A group's backlog, summed over its queues from the brokers' tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from rmqctl.model.names import LMQ_PREFIX, RETRY_PREFIX
from rmqctl.model.progress import Unknown
from rmqctl.model.stats import ConsumeTimeSpan, TopicOffset
from rmqctl.model.topic import TopicConfig
from rmqctl.rules.progress import compute_lag


class TopicPart(Struct, frozen=True):
    """One broker's part of a topic, and the group's offsets there by queue id.

    A broker that did not report leaves `queues` None, with a `reason`; an unknown configuration leaves `config` None.
    `cut_queues` are queues that have an offset but no longer belong to the topic. `is_copy`: a slave answered, which
    may lack offsets that its master stores.
    """

    broker_name: str
    topic: str
    offsets: Mapping[int, int]
    queues: Mapping[int, TopicOffset] | None
    config: TopicConfig | None
    reason: Unknown | None = None
    cut_queues: Mapping[int, TopicOffset] = {}
    is_copy: bool = False

    def is_readable(self, queue_id: int) -> bool:
        """Tell whether consumers can read a queue: its id is below readQueueNums."""
        return self.config is None or queue_id < self.config.read_queue_count


class UnreadPart(Struct, frozen=True):
    """Queues with unread messages in one broker's part of a topic: to be resumed, or restarted at the first one."""

    broker_name: str
    topic: str
    resumed_ids: tuple[int, ...]
    restarted_ids: tuple[int, ...]


class UnreadableQueue(Struct, frozen=True):
    """A queue that no consumer can read, and how many messages are in it."""

    queue_id: int
    count: int


class Backlog(Struct, frozen=True):
    """Sums over all queues. `reason` says why lag and losses are lower bounds; None: they are exact.

    `beyond_max_count` counts queues whose offset is beyond their end. `unreadable_count` counts messages in queues that
    no consumer can read, which the lag does not include; a readQueueNums of `unreadable_end` makes them readable.
    `uncommitted_count` counts messages in queues without a stored offset, which the lag does not include either.
    """

    lag: int
    lost: int
    reason: Unknown | None
    beyond_max_count: int
    unreadable_count: int
    unreadable_queue_count: int
    unreadable_end: int
    behind: tuple[UnreadPart, ...]
    uncommitted_count: int = 0


# The most important first.
_REASONS = (
    Unknown.BROKER_UNREACHABLE,
    Unknown.NOT_AUTHORISED,
    Unknown.SLAVE_ANSWERED,
    Unknown.OFFSET_BEYOND_MAX,
    Unknown.NEVER_COMMITTED,
)


def sum_backlog(parts: Iterable[TopicPart]) -> Backlog:
    """Sum up the brokers' reports on the topics that a group consumes."""
    lag = lost = beyond_max_count = uncommitted_count = 0
    unreadable: list[UnreadableQueue] = []
    found: set[Unknown | None] = set()
    behind = []
    for part in parts:
        if part.queues is None:
            found.add(part.reason or Unknown.BROKER_UNREACHABLE)
            continue
        resumed_ids: list[int] = []
        restarted_ids: list[int] = []
        for queue_id, queue in part.queues.items():
            consumer_offset = part.offsets.get(queue_id)
            if not part.is_readable(queue_id):
                first = queue.min_offset if consumer_offset is None else consumer_offset
                unreadable.append(UnreadableQueue(queue_id, count_unread(queue, first)))
            elif consumer_offset is None:
                if part.is_copy:
                    found.add(Unknown.SLAVE_ANSWERED)
                elif queue.max_offset > queue.min_offset:
                    found.add(Unknown.NEVER_COMMITTED)
                    uncommitted_count += queue.message_count
            elif consumer_offset > queue.max_offset:
                found.add(Unknown.OFFSET_BEYOND_MAX)
                beyond_max_count += 1
            else:
                queue_lag, queue_lost = compute_lag(queue.min_offset, queue.max_offset, consumer_offset)
                lag += queue_lag
                lost += queue_lost or 0
                if queue_lag:
                    (restarted_ids if consumer_offset < queue.min_offset else resumed_ids).append(queue_id)
        unreadable += [
            UnreadableQueue(queue_id, count_unread(queue, part.offsets[queue_id]))
            for queue_id, queue in part.cut_queues.items()
        ]
        if resumed_ids or restarted_ids:
            behind.append(UnreadPart(part.broker_name, part.topic, tuple(resumed_ids), tuple(restarted_ids)))
    return Backlog(
        lag=lag,
        lost=lost,
        reason=next((reason for reason in _REASONS if reason in found), None),
        beyond_max_count=beyond_max_count,
        unreadable_count=sum(each.count for each in unreadable),
        unreadable_queue_count=sum(each.count > 0 for each in unreadable),
        unreadable_end=max((each.queue_id + 1 for each in unreadable if each.count), default=0),
        behind=tuple(behind),
        uncommitted_count=uncommitted_count,
    )


def merge_backlogs(parts: Iterable[Backlog]) -> Backlog:
    """Return the sums over several topics."""
    every = list(parts)
    found = {part.reason for part in every}
    return Backlog(
        lag=sum(part.lag for part in every),
        lost=sum(part.lost for part in every),
        reason=next((reason for reason in _REASONS if reason in found), None),
        beyond_max_count=sum(part.beyond_max_count for part in every),
        unreadable_count=sum(part.unreadable_count for part in every),
        unreadable_queue_count=sum(part.unreadable_queue_count for part in every),
        unreadable_end=max((part.unreadable_end for part in every), default=0),
        behind=tuple(behind for part in every for behind in part.behind),
        uncommitted_count=sum(part.uncommitted_count for part in every),
    )


def oldest_age_ms(behind: UnreadPart, spans: Mapping[int, ConsumeTimeSpan]) -> int | None:
    """Return the age in ms of the oldest unread message in some queues, None when any queue's is unknown."""
    ages = [spans[queue_id].head_age_ms if queue_id in spans else None for queue_id in behind.resumed_ids]
    ages += [spans[queue_id].oldest_age_ms if queue_id in spans else None for queue_id in behind.restarted_ids]
    known = [max(0, age_ms) for age_ms in ages if age_ms is not None]
    return max(known) if known and len(known) == len(ages) else None


def count_unread(queue: TopicOffset, consumer_offset: int) -> int:
    """Return how many messages of a queue a group has not read."""
    return max(0, queue.max_offset - max(queue.min_offset, consumer_offset))


def is_gone(topic: str) -> bool:
    """Return whether a topic without a configuration or route no longer exists.

    Brokers create retry topics as they need them: one can be newer than what was read.
    """
    return not topic.startswith(RETRY_PREFIX)


def find_leftovers(
    topics: Mapping[str, Mapping[int, int]], configs: Mapping[str, TopicConfig]
) -> Iterator[tuple[str, int]]:
    """Yield the queues that a broker stores an offset for but does not have, by its topic configurations."""
    for topic, offsets in topics.items():
        config = configs.get(topic)
        # Light queues are not topics in their own right.
        if not topic.startswith(LMQ_PREFIX) and (config is not None or is_gone(topic)):
            count = 0 if config is None else max(config.read_queue_count, config.write_queue_count)
            yield from ((topic, queue_id) for queue_id in offsets if queue_id >= count)
