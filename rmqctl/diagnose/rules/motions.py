"""Conclusions from two readings of a group, for several checks. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.health.idle import is_sure_of_unheld
from rmqctl.rules.stuck_queues import StuckReason

from .refusals import refused_filters

# A group that keeps up is up to 10 s behind by its stored offsets, because clients commit every 5 s.
_LEAST_AGE_MS = 30_000
_LEAST_GROWN = 10
_CLEARLY = 1.1


class Growth(Struct, frozen=True):
    """A topic whose lag grows: messages per second that arrive and are consumed, in queues that members serve.

    `age_ms` is the age of the oldest unread message. `retention_in_ms` is the time until that age reaches the
    retention, None if unknown.
    """

    put_tps: float
    done_tps: float
    behind: int
    age_ms: int
    retention_in_ms: int | None


def by_topic_and_member(motions: Iterable[QueueMotion]) -> dict[tuple[str, str], list[QueueMotion]]:
    """Return motions of queues that members hold, by topic and client id."""
    grouped: dict[tuple[str, str], list[QueueMotion]] = {}
    for each in motions:
        if each.client_id is not None:
            grouped.setdefault((each.mq.topic, each.client_id), []).append(each)
    return grouped


def shared_motions(facts: GroupFacts) -> list[QueueMotion]:
    """Return the motions of queues that members share and commit: not those of broadcasting members or popped queues.

    A pop moves the offset of its queue at once, even if another member pulls the queue.
    """
    sharers = facts.sharers
    return [
        each
        for each in facts.motions
        if sharers and (each.client_id is None or each.client_id in sharers) and not facts.is_popped(each.mq)
    ]


def idle_motions(facts: GroupFacts, motions: Iterable[QueueMotion]) -> list[QueueMotion]:
    """Return the motions of queues with unread messages of which nothing is in flight, without an evident cause.

    `is_overdue` of their verdicts says for which of them that lasts too long.
    """
    refused = refused_filters(facts)
    unheld = _UNHELD if _judges_unheld(facts) else ()
    popped = () if _hides_members(facts) else (StuckReason.POP,)
    subscribed = {*facts.wanted(), *facts.filtered()}

    def may_be_consumed(mq: MessageQueue) -> bool:
        # Only push consumers read retry topics (RTY006). Consumers that pull by themselves need no subscription; OFF012
        # names topics that no member subscribes to any longer.
        is_wanted = not subscribed or mq.topic in subscribed
        return is_wanted and not mq.topic.startswith(RETRY_PREFIX)

    def is_idle(each: QueueMotion, why: StuckReason) -> bool:
        if why in _HELD_IDLE:
            return True
        is_unheld = why in popped or (why in unheld and not facts.is_popped(each.mq))
        return is_unheld and may_be_consumed(each.mq)

    return [
        each
        for each in motions
        if each.verdict is not None
        # A prefetched message is unread, whatever the offset is.
        and (each.watched.last.behind or each.head_offset is not None)
        and (each.mq.topic, each.mq.broker_name) not in refused
        and not _is_closed(facts, each)
        and is_idle(each, each.verdict.why)
    ]


def is_unsure(motion: QueueMotion) -> bool:
    """Return whether a queue is overdue, but a longer watch may show an application that only commits seldom."""
    verdict = motion.verdict
    is_idle = verdict is not None and verdict.is_overdue is True and verdict.why in _UNHELD
    return is_idle and not is_sure_of_unheld(motion.watched.for_ms)


_HELD_IDLE = (StuckReason.PAUSED, StuckReason.NOT_PULLED, StuckReason.NOT_POLLED)
_UNHELD = (StuckReason.NOT_ASSIGNED, StuckReason.NOT_REPORTED)


def _is_closed(facts: GroupFacts, motion: QueueMotion) -> bool:
    """Return whether the broker refuses the pulls of a queue, which other checks report."""
    mq, config = motion.mq, facts.configs.get(motion.mq.broker_name)
    return mq.broker_name in facts.closed_brokers.get(mq.topic, ()) or (
        config is not None
        and (
            not config.consume_enable
            or mq.topic in config.forbidden_topics
            or (motion.client_id in facts.broadcasting and not config.consume_broadcast_enable)
        )
    )


def _judges_unheld(facts: GroupFacts) -> bool:
    """Return whether no unseen member can hold a queue, and members should.

    If every holder is known, ALO003 reports the queues without one.
    """
    return bool(facts.sharers) and not facts.knows_holders and not _hides_members(facts)


def _hides_members(facts: GroupFacts) -> bool:
    """Return whether there may be members that report no queues: behind a proxy, or at a broker that did not answer."""
    live = None if facts.snapshot is None else facts.snapshot.live
    return any(facts.proxied.values()) or (live is not None and bool(live.silent_brokers))


def motion_of_queues(motions: Iterable[QueueMotion]) -> dict[MessageQueue, QueueMotion]:
    """Return one motion per queue; with several holders, that of the one that is farthest ahead."""
    farthest: dict[MessageQueue, QueueMotion] = {}
    for each in motions:
        known = farthest.get(each.mq)
        if known is None or (each.watched.last.next_offset or 0) > (known.watched.last.next_offset or 0):
            farthest[each.mq] = each
    return farthest


def growing_topics(facts: GroupFacts) -> dict[str, Growth]:
    """Return the topics whose lag grows though members consume: by both readings, and by the members' last minute.

    Queues that no member serves or whose head is stuck are left out: other checks report them.
    """
    by_topic: dict[str, list[QueueMotion]] = {}
    for mq, each in motion_of_queues(shared_motions(facts)).items():
        if each.is_served and not mq.topic.startswith(RETRY_PREFIX):
            by_topic.setdefault(mq.topic, []).append(each)
    found = {topic: _growth(facts, topic, motions) for topic, motions in by_topic.items()}
    return {topic: growth for topic, growth in found.items() if growth is not None}


def _growth(facts: GroupFacts, topic: str, motions: list[QueueMotion]) -> Growth | None:
    put_tps = grown_tps = 0.0
    put = grown = behind = 0
    for each in motions:
        first, last = each.watched.first, each.watched.last
        if first.behind is None or last.behind is None or first.max_offset is None or last.max_offset is None:
            continue
        put += last.max_offset - first.max_offset
        grown += last.behind - first.behind
        put_tps += each.per_second(last.max_offset - first.max_offset)
        grown_tps += each.per_second(last.behind - first.behind)
        behind += last.behind
    done_tps = round(put_tps - grown_tps, 9)  # a difference of floats is hardly ever exactly 0
    queues = {each.mq for each in motions}
    rows = [row for row in facts.rows if row.mq in queues]
    age_ms = max((row.time_lag_ms or 0 for row in rows), default=0)
    if age_ms < _LEAST_AGE_MS or grown < max(_LEAST_GROWN, (_CLEARLY - 1) * put):
        return None
    if put_tps < _CLEARLY * _reported_tps(facts, topic):
        return None
    left_ms = min((row.retention_left_ms for row in rows if row.retention_left_ms is not None), default=None)
    # The age grows by the share of each second's messages that is not consumed.
    in_ms = None if left_ms is None or put_tps <= 0 else round(left_ms * put_tps / min(grown_tps, put_tps))
    return Growth(put_tps, max(0.0, done_tps), behind, age_ms, in_ms)


def _reported_tps(facts: GroupFacts, topic: str) -> float:
    """Return the messages per second that these members consumed in the last minute, by their own counters."""
    reported = [facts.running[client_id].statuses for client_id in facts.sharers]
    statuses = [each[topic] for each in reported if topic in each]
    return sum(status.consume_ok_tps for status in statuses)
