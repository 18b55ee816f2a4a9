"""Finds idle queues by one reading: members report when they last finished or pulled a message. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from rmqctl.model.group import GroupState, ProcessQueueInfo, RunningInfo
from rmqctl.model.progress import QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.model.stats import ConsumeTimeSpan
from rmqctl.rules.health.positions import Position, PositionPair
from rmqctl.rules.holder_report import HolderReport, holder_of, report_of
from rmqctl.rules.stuck_queues import StuckFacts, StuckReason, StuckVerdict, client_now_ms, judge

from .facts import QueueMotion


def find_unmoved(
    rows: Iterable[QueueProgress], running: Mapping[str, RunningInfo], spans: Mapping[MessageQueue, ConsumeTimeSpan]
) -> Iterator[QueueMotion]:
    """Yield the queues that one reading proves to be idle: a stuck head, pulls that stopped, or a paused member.

    All others may move, which a second reading shows. `spans` are the ages of messages that brokers reported.
    """
    by_queue = {row.mq: row for row in rows}
    for client_id, info in running.items():
        word = report_of(client_id, info, client_now_ms(info))
        for mq, held in sorted(info.process_queues.items()):
            row = by_queue.get(mq)
            if row is not None and not held.dropped:
                position = Position(row.consumer_offset, row.max_offset, held, row.min_offset, row.pull_offset)
                watched = PositionPair(position, position, 0, word.settings.is_orderly)
                verdict = _verdict(mq, row, word, watched, _head_age_ms(row, held, spans.get(mq)))
                if verdict is not None:
                    yield QueueMotion(mq, client_id, watched, 0, verdict)


def _verdict(
    mq: MessageQueue, row: QueueProgress, word: HolderReport, watched: PositionPair, head_age_ms: int | None
) -> StuckVerdict | None:
    """Return the verdict on a queue where one reading is enough for it."""
    subscribed = (each for each in word.info.subscriptions if each.topic == mq.topic)
    # Threads are ignored here: all of them may be busy, and the head then waits for one.
    threads = word.settings.thread_count
    facts = StuckFacts(
        watched=watched,
        state=GroupState.ONLINE,
        holder=holder_of(mq, word, threads, threads),
        head_age_ms=head_age_ms,
        # One reading does not show whether the member passes messages that its filter leaves out.
        is_wanted=any(each.is_everything for each in subscribed) or None,
    )
    verdict = judge(facts, None)
    if verdict is None:
        return None
    if verdict.is_stuck:
        return replace(verdict, why=StuckReason.IN_HAND) if verdict.why is StuckReason.IN_CONSUMPTION else verdict
    held = watched.last.held
    # Prefetched messages have passed the filter.
    has_stopped = verdict.why is StuckReason.NOT_POLLED or (
        verdict.why is StuckReason.NOT_PULLED and held is not None and held.last_pull_at_ms is not None
    )
    return verdict if verdict.is_overdue and (has_stopped or facts.is_wanted) and row.lag else None


def _head_age_ms(row: QueueProgress, held: ProcessQueueInfo, span: ConsumeTimeSpan | None) -> int | None:
    """Return the age of the first message in flight, or that the member pulls next.

    It is known if the message is the oldest or the first unread one of the queue.
    """
    head = held.position if held.head_offset is None else held.head_offset
    if head is None or head < (row.min_offset or 0):
        return None  # deleted meanwhile
    if head == row.consumer_offset:
        return row.time_lag_ms
    return span.oldest_age_ms if head == row.min_offset and span is not None else None
