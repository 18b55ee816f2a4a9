"""Makes facts from the readings of a group, without sending requests."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from rmqctl.admin.group_details import GroupDetails
from rmqctl.admin.groups.members import GroupMembers
from rmqctl.admin.groups.summary import GroupSummary
from rmqctl.errors import OUT_OF_TIME, RmqctlError
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.group_views import member_views
from rmqctl.rules.progress import uncommitted_count
from rmqctl.whatif.live_snapshot import make_snapshot

from .facts import GroupFacts, TopicFacts
from .single_reading import find_unmoved


def facts_of(details: GroupDetails) -> GroupFacts:
    """Return the facts of one group that was read in full, without rates."""
    progress, reading, running = details.progress, details.reading, details.running
    return GroupFacts(
        group=progress.group,
        at_ms=details.at_ms,
        state=progress.state,
        connections=details.connections,
        configs=details.configs,
        topics=_topics(progress.rows, {**progress.unreadable, **details.cut_queues}),
        has_leftovers=bool(details.leftovers),
        leftovers=tuple(details.leftovers),
        stored_topics=details.stored_topics,
        unwanted_counts=details.unwanted_counts,
        members=member_views(details.connections, running.ok, details.topic_brokers),
        running=running.ok,
        silent={client_id: error.sentence for client_id, error in running.failed.items()},
        unasked=_unasked(running.failed),
        rows=progress.rows,
        snapshot=make_snapshot(progress, reading, details.configs, None),
        dead_letter_count=details.dead_letter_count,
        last_dead_letter_at_ms=details.last_dead_letter_at_ms,
        closed_letter_brokers=details.closed_letter_brokers,
        retry_places=details.retry_places,
        broker_versions={name: view.version for name, view in reading.views.items()},
        closed_brokers=reading.closed_brokers(),
        motions=tuple(find_unmoved(progress.rows, running.ok, reading.spans)),
    )


def facts_of_members(found: GroupMembers) -> GroupFacts:
    """Return the facts of one group for which brokers and members were asked, but no queues."""
    return GroupFacts(
        group=found.group,
        at_ms=found.at_ms,
        state=found.state,
        connections=found.connections,
        members=member_views(found.connections, found.running.ok, found.topic_brokers),
        running=found.running.ok,
        silent={client_id: error.sentence for client_id, error in found.running.failed.items()},
        unasked=_unasked(found.running.failed),
    )


def facts_of_summary(summary: GroupSummary, at_ms: int) -> GroupFacts:
    """Return the facts of one group of a list, from brokers' tables only, without reports of members."""
    return GroupFacts(
        group=summary.group,
        at_ms=at_ms,
        state=summary.state,
        connections=summary.connections,
        configs=summary.configs,
        topics=tuple(
            TopicFacts(
                topic=topic,
                lag=backlog.lag,
                lost=backlog.lost,
                is_lost_exact=backlog.reason is None,
                beyond_max_count=backlog.beyond_max_count,
                unreadable_count=backlog.unreadable_count,
                unreadable_queue_count=backlog.unreadable_queue_count,
                unreadable_end=backlog.unreadable_end,
                uncommitted_count=backlog.uncommitted_count,
            )
            for topic, backlog in summary.backlogs.items()
        ),
        has_leftovers=summary.has_leftovers,
        closed_brokers=summary.closed_brokers,
        unserved_brokers=summary.unserved_brokers,
        dead_letter_count=None if summary.letters is None else summary.letters.count,
        last_dead_letter_at_ms=None if summary.letters is None else summary.letters.last_at_ms,
    )


def with_rates(facts: GroupFacts, rates: Mapping[MessageQueue, float], sampled_s: float) -> GroupFacts:
    """Return the facts with the rates of their own queues."""
    queues = facts.snapshot.queues if facts.snapshot is not None else ()
    return replace(facts, put_rates={mq: rates[mq] for mq in queues if mq in rates}, sampled_s=sampled_s)


def _unasked(failed: Mapping[str, RmqctlError]) -> frozenset[str]:
    return frozenset(client_id for client_id, error in failed.items() if isinstance(error, OUT_OF_TIME))


def _topics(rows: tuple[QueueProgress, ...], unreadable: Mapping[MessageQueue, int]) -> tuple[TopicFacts, ...]:
    names = sorted({row.mq.topic for row in rows} | {mq.topic for mq in unreadable})
    by_topic: dict[str, list[QueueProgress]] = {name: [] for name in names}
    for row in rows:
        by_topic[row.mq.topic].append(row)
    return tuple(
        TopicFacts(
            topic=topic,
            lag=sum(row.lag or 0 for row in own),
            lost=sum(row.lost or 0 for row in own),
            is_lost_exact=all(row.lost is not None for row in own),
            beyond_max_count=sum(row.reasons.get("lag") is Unknown.OFFSET_BEYOND_MAX for row in own),
            unreadable_count=sum(count for mq, count in unreadable.items() if mq.topic == topic),
            unreadable_queue_count=sum(mq.topic == topic for mq in unreadable),
            unreadable_end=max((mq.queue_id + 1 for mq in unreadable if mq.topic == topic), default=0),
            uncommitted_count=sum(map(uncommitted_count, own)),
        )
        for topic, own in by_topic.items()
    )
