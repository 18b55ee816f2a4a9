"""OFF010: a member of a broadcasting group is behind, which no lag shows."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.motions import by_topic_and_member
from rmqctl.rules.words import counted

# Less is caught up with before anybody has typed a command.
_LEAST = 1_000


@check(
    "OFF010",
    Severity.WARNING,
    "a member of a broadcasting group is far behind and does not move",
    meaning="Members of a broadcasting group keep their offsets themselves: brokers show no lag. By its own word this "
    "member has not consumed at least 1,000 messages. One that moves catches up, which is only worth knowing.",
    advice="Look at that member: its threads, its log. Others are not affected, and none takes its place.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.MOTION),
)
def broadcast_lag(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare each member's own position with the end of each queue, at both readings."""
    if not facts.is_broadcasting:
        return
    for (topic, client_id), motions in by_topic_and_member(facts.motions).items():
        behind = {str(each.mq): count for each in motions if (count := _behind(each)) > 0}
        total = sum(behind.values())
        if total < _LEAST:
            continue
        moves = any(_moves(each) for each in motions)
        yield Symptom(
            f"{client_id} is {counted(total, 'message')} behind in {counted(len(behind), 'queue')} of {topic} by its "
            f"own position, and {'moves on' if moves else 'does not move'}. Brokers show no lag of it.",
            tuple(Evidence("behind", f"{queue} {count}", client_id) for queue, count in behind.items()),
            command("group", "members", facts.group, "-o", "wide"),
            topic,
            key=f"{topic} {client_id}",
            severity=Severity.INFO if moves else None,
        )


def _behind(motion: QueueMotion) -> int:
    position, end = motion.watched.last.commit_offset, motion.watched.last.max_offset
    return 0 if position is None or end is None else end - position


def _moves(motion: QueueMotion) -> bool:
    """Tell whether the member went on; of a queue that it took in between, that is not known, and assumed."""
    first, last = motion.watched.first.commit_offset, motion.watched.last.commit_offset
    return last is not None and (first is None or last != first)
