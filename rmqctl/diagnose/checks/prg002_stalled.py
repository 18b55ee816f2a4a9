"""PRG002: messages are unread, and no member consumes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import by_topic_and_member, idle_motions, is_unsure
from rmqctl.rules.stuck_queues import StuckReason
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted


@check(
    "PRG002",
    Severity.ERROR,
    "messages are unread, and no member consumes them",
    meaning="A member holds the queues but has had no messages in flight for more than 30 s plus its pullInterval. It "
    "is paused (suspend), its pulls fail, or its pull thread is dead. With DefaultLitePullConsumer, the application "
    "has polled no messages of any queue for more than 1 min. No other member consumes the queues while it holds them. "
    "If members pop, each of them may pop more, but no offset moved for 30 s: they are paused. If no member reports "
    "the queues (DefaultMQPullConsumer), no offset moved, on 5.x no pulls advance, and the first unread message is "
    "older than 1 min. This is a WARNING until the offsets were watched for 55 s. A member that commits less often "
    "than that looks the same.",
    advice="Resume the member, or restart it: its queues are assigned to the others. Its log shows pulls that fail. If "
    "members pull or poll by themselves, look in the application for a loop that has ended.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.MOTION),
)
def stalled(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for queues that are idle for too long, not because of their filter or a broker that refuses pulls."""
    idle = [each for each in idle_motions(facts, facts.motions) if each.verdict is not None and each.verdict.is_overdue]
    for (topic, client_id), motions in by_topic_and_member(idle).items():
        yield Symptom(
            f"{client_id} {_held(motions)}.",
            _positions(motions, client_id),
            command("clean-expired", facts.group, "--topic", topic, "-o", "wide"),
            topic,
            key=f"{topic} {client_id}",
        )
    unheld = [each for each in idle if each.client_id is None]
    for topic, is_popped in dict.fromkeys((each.mq.topic, _is_popped(each)) for each in unheld):
        motions = [each for each in unheld if (each.mq.topic, _is_popped(each)) == (topic, is_popped)]
        yield _unheld(facts.group, topic, motions, is_popped=is_popped)


def _held(motions: Sequence[QueueMotion]) -> str:
    reasons = {each.verdict.why for each in motions if each.verdict is not None}
    if StuckReason.NOT_POLLED in reasons:
        return f"has prefetched {_queues(motions)}, but its application has not polled any for more than 1 min"
    if StuckReason.NOT_PULLED in reasons:
        why = "it no longer pulls"
    elif any(each.watched.is_orderly for each in motions):
        why = "it is paused, its pulls fail, or it lacks the lock"
    else:
        why = "it is paused, or its pulls fail"
    return f"holds {_queues(motions)} but consumes none: {why}"


def _unheld(group: str, topic: str, motions: Sequence[QueueMotion], *, is_popped: bool) -> Symptom:
    watched = short_duration(min(each.watched.for_ms for each in motions))
    unmoved = f"no offset of these moved in {watched}"
    is_open = any(map(is_unsure, motions))
    if is_popped:
        sentence = f"Members pop nothing from {_queues(motions)}: {unmoved}, although each member may pop more."
    else:
        sentence = f"No member reports that it holds {_queues(motions)}, and {unmoved}."
        sentence += " A member that commits less often looks the same." if is_open else ""
    return Symptom(
        sentence,
        _positions(motions, "rmqctl"),
        command("diagnose", group, "--only", "PRG002", "--for", "70s")
        if is_open
        else command("offset", "show", group, "--topic", topic),
        topic,
        key=f"{topic} popped" if is_popped else "",
        severity=Severity.WARNING if is_open else None,
    )


def _is_popped(motion: QueueMotion) -> bool:
    return motion.verdict is not None and motion.verdict.why is StuckReason.POP


def _queues(motions: Sequence[QueueMotion]) -> str:
    unread = sum(_unread(each) for each in motions)
    return f"{counted(len(motions), 'queue')} of {motions[0].mq.topic} with {counted(unread, 'unread message')}"


def _unread(motion: QueueMotion) -> int:
    """Return how many messages are unread, at least; without an offset, those that are prefetched."""
    last = motion.watched.last
    held_count = 0 if last.held is None else last.held.in_hand_count
    return held_count if last.behind is None else last.behind


def _positions(motions: Sequence[QueueMotion], reported_by: str) -> tuple[Evidence, ...]:
    return tuple(Evidence("position", f"{each.mq} {each.watched.last.next_offset}", reported_by) for each in motions)
