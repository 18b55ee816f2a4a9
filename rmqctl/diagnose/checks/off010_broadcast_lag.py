"""OFF010: a member of a broadcasting group is behind, which brokers do not show as lag."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import by_topic_and_member
from rmqctl.text.words import counted

# A smaller backlog is consumed before a user has typed a command.
_LEAST = 1_000


@check(
    "OFF010",
    Severity.WARNING,
    "a member of a broadcasting group is far behind and does not move",
    meaning="Members of a broadcasting group store their offsets locally, so brokers show no lag. By its own report, "
    "this member is at least 1,000 messages behind. If its position moves, it is catching up, and the finding is only "
    "INFO.",
    advice="Check that member's threads and log. Other members are not affected, and none of them replaces it.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.MOTION),
)
def broadcast_lag(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare each member's own position with the end of each queue, at both readings."""
    broadcasting = facts.broadcasting
    own = [each for each in facts.motions if each.client_id in broadcasting]
    for (topic, client_id), motions in by_topic_and_member(own).items():
        behind = {str(each.mq): count for each in motions if (count := _behind(each)) > 0}
        total = sum(behind.values())
        if total < _LEAST:
            continue
        moves = any(_moves(each) for each in motions)
        yield Symptom(
            f"By its own position, {client_id} is {counted(total, 'message')} behind in {counted(len(behind), 'queue')}"
            f" of {topic} and {'moves' if moves else 'does not move'}. Brokers show no lag for it.",
            tuple(Evidence("behind", f"{queue} {count}", client_id) for queue, count in behind.items()),
            command("group", "members", facts.group, "-o", "wide")
            if moves
            else command("clean-expired", facts.group, "--topic", topic, "-o", "wide"),
            topic,
            key=f"{topic} {client_id}",
            severity=Severity.INFO if moves else None,
        )


def _behind(motion: QueueMotion) -> int:
    position, end = motion.watched.last.commit_offset, motion.watched.last.max_offset
    return 0 if position is None or end is None else end - position


def _moves(motion: QueueMotion) -> bool:
    """Return whether the member's position moved; assumed for a queue assigned to it between the readings."""
    first, last = motion.watched.first.commit_offset, motion.watched.last.commit_offset
    return last is not None and (first is None or last != first)
