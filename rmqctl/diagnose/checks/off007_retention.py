"""OFF007: unread messages are about to be deleted."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import motion_of_queues
from rmqctl.model.progress import QueueProgress
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

# Of the retention: 7 h of the 72 h that brokers keep messages by default.
_PART = 0.1
# On a full disk no message is certain to be kept. Younger ones are consumed in a moment.
_LEAST_AGE_MS = 60_000


@check(
    "OFF007",
    Severity.WARNING,
    "unread messages are about to be deleted",
    meaning="The oldest unread message is older than nine tenths of the broker's retention (fileReservedTime). Or the "
    "broker's disk is so full that files are deleted at any age. Brokers delete whole files, read or not.",
    advice="Let the group catch up in time, or raise fileReservedTime. The time left per queue: rmqctl offset show "
    "GROUP -o wide. To keep the messages: rmqctl message find TOPIC.",
    needs=(Need.BROKERS,),
)
def retention(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare message ages with the retention, except where a group will have read everything in time."""
    if facts.is_broadcasting:
        return
    motions = motion_of_queues(each for each in facts.motions if each.client_id not in facts.broadcasting)
    by_topic: dict[str, list[tuple[int, QueueProgress]]] = {}
    for row in facts.rows:
        left_ms = row.retention_left_ms
        if left_ms is not None and _is_near(row, left_ms) and not _is_in_time(row, left_ms, motions.get(row.mq)):
            by_topic.setdefault(row.mq.topic, []).append((left_ms, row))
    losing = {each.topic for each in facts.topics if each.lost}
    for topic, rows in by_topic.items():
        if topic in losing and not facts.is_online:
            continue  # OFF001 and OFF005 report it
        left_ms = min(left for left, _ in rows)
        lag = sum(row.lag or 0 for _, row in rows)
        when = f"may be deleted in {short_duration(left_ms)}" if left_ms > 0 else "may be deleted at the next cleanup"
        yield Symptom(
            f"The oldest of {counted(lag, 'unread message')} in {counted(len(rows), 'queue')} of {topic} {when}.",
            tuple(Evidence("retentionLeftMs", left, str(row.mq)) for left, row in rows),
            command("offset", "show", facts.group, "--topic", topic, "-o", "wide"),
            topic,
            # A group without members misses nothing until a member joins again.
            severity=Severity.ERROR if left_ms <= 0 and facts.is_online else None,
        )


def _is_near(row: QueueProgress, left_ms: int) -> bool:
    age_ms = row.time_lag_ms or 0
    return age_ms >= _LEAST_AGE_MS and left_ms < _PART * (left_ms + age_ms)


def _is_in_time(row: QueueProgress, left_ms: int, motion: QueueMotion | None) -> bool:
    """Return whether the queue's messages will have been read by then, at the rate of both readings."""
    if motion is None or row.lag is None:
        return False
    done_tps = motion.per_second(motion.watched.advance or 0)
    return done_tps > 0 and row.lag / done_tps * 1000 < max(left_ms, _LEAST_AGE_MS)
