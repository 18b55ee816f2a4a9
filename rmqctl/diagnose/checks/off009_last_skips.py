"""OFF009: members that start at the last offset skip messages of queues that are new to the group."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import start_last
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.text.words import counted, listed


@check(
    "OFF009",
    Severity.WARNING,
    "messages of queues that are new to the group are skipped (CONSUME_FROM_LAST_OFFSET)",
    meaning="The group consumed other queues of the topic before. It has no offset in these queues, so its members "
    "start at their end. Messages that producers sent before a member took the queue over are not consumed.",
    advice="Reset these queues: rmqctl offset reset GROUP --topic TOPIC --queue BROKER:ID --to-earliest --dry-run. "
    "Next time, use CONSUME_FROM_FIRST_OFFSET, or add queues before producers use them.",
)
def last_skips(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for queues with messages but without an offset, in topics where the group has offsets."""
    consumed = {row.mq.topic for row in facts.rows if row.consumer_offset is not None}
    by_topic: dict[str, list[QueueProgress]] = {}
    for row in facts.rows:
        if row.mq.topic not in consumed or row.mq.topic.startswith(RETRY_PREFIX):
            continue
        if _is_skipped(facts, row) and start_last(facts, row):
            by_topic.setdefault(row.mq.topic, []).append(row)
    for topic, rows in by_topic.items():
        count = sum((row.max_offset or 0) - (row.min_offset or 0) for row in rows)
        does = "skip" if all(row.client_ids for row in rows) else "will skip"
        yield Symptom(
            f"Members {does} up to {counted(count, 'message')} in {counted(len(rows), 'queue')} of {topic}: the group "
            f"has no offset there, and members start at the end (LAST_OFFSET). {listed(row.mq for row in rows)}.",
            tuple(Evidence("messageCount", (row.max_offset or 0) - (row.min_offset or 0), str(row.mq)) for row in rows),
            command("offset", "show", facts.group, "--topic", topic),
            topic,
        )


def _is_skipped(facts: GroupFacts, row: QueueProgress) -> bool:
    """Return whether the broker certainly has no offset for the queue.

    For a queue that starts at 0 it returns 0 while the first message is in memory (ConsumerManageProcessor). The
    holder's report decides then: a holder without a position has received the answer that no offset exists.
    """
    if row.reasons.get("consumerOffset") is not Unknown.NEVER_COMMITTED:
        return False
    if row.min_offset is None or row.max_offset is None or row.max_offset <= row.min_offset:
        return False
    if row.min_offset > 0:
        return True
    held = [facts.running[client_id].process_queues.get(row.mq) for client_id in row.client_ids]
    return bool(held) and all(each is not None and each.commit_offset is None for each in held)
