"""PRG002: messages are unread, and no member consumes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import by_topic_and_member, idle_motions
from rmqctl.rules.stuck_queues import StuckReason
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted


@check(
    "PRG002",
    Severity.ERROR,
    "messages are unread, and no member consumes them",
    meaning="A member holds the queues but has had no messages in flight for more than 30 s plus its pullInterval. It "
    "is paused (suspend), its pulls fail, or its pull thread is dead. No other member consumes the queues while it "
    "holds them. If no member holds the queues, their offsets did not move for 30 s, and the first unread message is "
    "older than 1 min. Members that pull by themselves do not report queues: one that commits its offsets less often "
    "looks the same.",
    advice="Resume the member, or restart it: its queues are assigned to the others. Its log shows pulls that fail. If "
    "members pull by themselves, look in the application for a pull loop that has ended.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.MOTION),
)
def stalled(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for queues that are idle for too long, not because of their filter or a broker that refuses pulls."""
    idle = [each for each in idle_motions(facts, facts.motions) if each.verdict is not None and each.verdict.is_overdue]
    for (topic, client_id), motions in by_topic_and_member(idle).items():
        stopped = any(each.verdict is not None and each.verdict.why is StuckReason.NOT_PULLED for each in motions)
        is_orderly = any(each.watched.is_orderly for each in motions)
        fails = (
            "it is paused, its pulls fail, or it lacks the lock" if is_orderly else "it is paused, or its pulls fail"
        )
        why = "it no longer pulls" if stopped else fails
        yield Symptom(
            f"{client_id} holds {_queues(motions)} but consumes none: {why}.",
            _positions(motions, client_id),
            command("clean-expired", facts.group, "--topic", topic, "-o", "wide"),
            topic,
            key=f"{topic} {client_id}",
        )
    unheld: dict[str, list[QueueMotion]] = {}
    for each in idle:
        if each.client_id is None:
            unheld.setdefault(each.mq.topic, []).append(each)
    for topic, motions in unheld.items():
        watched = short_duration(min(each.watched.for_ms for each in motions))
        yield Symptom(
            f"No member reports that it holds {_queues(motions)}, and no offset of these moved in {watched}.",
            _positions(motions, "rmqctl"),
            command("offset", "show", facts.group, "--topic", topic),
            topic,
        )


def _queues(motions: Sequence[QueueMotion]) -> str:
    unread = sum(each.watched.last.behind or 0 for each in motions)
    return f"{counted(len(motions), 'queue')} of {motions[0].mq.topic} with {counted(unread, 'unread message')}"


def _positions(motions: Sequence[QueueMotion], reported_by: str) -> tuple[Evidence, ...]:
    return tuple(Evidence("position", f"{each.mq} {each.watched.last.next_offset}", reported_by) for each in motions)
