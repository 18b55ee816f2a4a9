"""OFF008: members that start at the last offset consume old messages."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import start_last
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import QueueProgress
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

# Start times are by the members' clocks, ages by the brokers'.
_MARGIN_MS = 600_000


@check(
    "OFF008",
    Severity.INFO,
    "members set to CONSUME_FROM_LAST_OFFSET consume messages from before their start",
    meaning="consumeFromWhere applies only where the broker has no offset for the group. A stored offset always wins, "
    "however old. Without one, a broker returns 0 for a queue that starts at 0 and is in memory.",
    advice="To skip these messages: rmqctl offset reset GROUP --topic TOPIC --to-latest --dry-run.",
)
def stored_wins(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the times at which the first unread messages were stored with the start of the members."""
    starts = {client_id: own.started_at_ms for client_id, own in facts.settings.items()}
    by_topic: dict[str, list[QueueProgress]] = {}
    for row in facts.rows:
        if not row.lag or row.mq.topic.startswith(RETRY_PREFIX):
            continue
        first_ms = min((starts[client_id] or 0 for client_id in start_last(facts, row)), default=0)
        if row.time_lag_ms is not None and facts.at_ms - row.time_lag_ms < first_ms - _MARGIN_MS:
            by_topic.setdefault(row.mq.topic, []).append(row)
    for topic, rows in by_topic.items():
        # For a queue that does not start at 0, the broker returns only stored offsets.
        why = "a stored offset wins over consumeFromWhere"
        if all(row.min_offset == 0 for row in rows):
            why += "; without one, the broker returns 0 for a queue that starts at 0"
        age_ms = max(row.time_lag_ms or 0 for row in rows)
        yield Symptom(
            f"In {counted(len(rows), 'queue')} of {topic}, the group consumes messages from before its members started "
            f"(stored up to {short_duration(age_ms)} ago), although they use LAST_OFFSET: {why}.",
            tuple(Evidence("consumerOffset", row.consumer_offset, str(row.mq)) for row in rows),
            command("offset", "reset", facts.group, "--topic", topic, "--to-latest", "--dry-run"),
            topic,
        )
