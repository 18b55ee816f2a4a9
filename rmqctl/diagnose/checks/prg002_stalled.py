"""PRG002: messages are unread, and the member that holds the queue consumes none."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import by_topic_and_member
from rmqctl.diagnose.rules.refusals import refused_filters
from rmqctl.rules.stuck_queues import StuckReason
from rmqctl.text.words import counted


@check(
    "PRG002",
    Severity.ERROR,
    "a member holds queues but consumes no messages from them",
    meaning="The member has no messages in flight and pulls none although some are unread. It is paused (suspend), "
    "its pulls fail, or its pull thread is dead. No other member consumes the queues while it holds them. The finding "
    "is only a WARNING while the member still pulls: a long pullInterval looks the same.",
    advice="Resume the member, or restart it: its queues are assigned to the others. Its log shows pulls that fail.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.MOTION),
    may_pass=True,
)
def stalled(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for queues that are idle at both readings, not because of their filter or a broker that refuses pulls."""
    refused = refused_filters(facts)
    idle = [
        each
        for each in facts.motions
        if _is_stalled(facts, each) and (each.mq.topic, each.mq.broker_name) not in refused
    ]
    for (topic, client_id), motions in by_topic_and_member(idle).items():
        unread = sum(each.watched.last.behind or 0 for each in motions)
        stopped = any(each.verdict is not None and each.verdict.why is StuckReason.NOT_PULLED for each in motions)
        is_orderly = any(each.watched.is_orderly for each in motions)
        fails = (
            "it is paused, its pulls fail, or it lacks the lock" if is_orderly else "it is paused, or its pulls fail"
        )
        why = "it no longer pulls" if stopped else fails
        yield Symptom(
            f"{client_id} holds {counted(len(motions), 'queue')} of {topic} with {counted(unread, 'unread message')} "
            f"but consumes none: {why}.",
            tuple(Evidence("position", f"{each.mq} {each.watched.last.next_offset}", client_id) for each in motions),
            command("clean-expired", facts.group, "--topic", topic, "-o", "wide"),
            topic,
            key=f"{topic} {client_id}",
            severity=Severity.ERROR if stopped else Severity.WARNING,
        )


def _is_stalled(facts: GroupFacts, motion: QueueMotion) -> bool:
    if motion.verdict is None or motion.verdict.why not in (StuckReason.PAUSED, StuckReason.NOT_PULLED):
        return False
    mq, config = motion.mq, facts.configs.get(motion.mq.broker_name)
    is_refused = (
        mq.broker_name in facts.closed_brokers.get(mq.topic, ())
        or (config is not None and mq.topic in config.forbidden_topics)
        or (config is not None and motion.client_id in facts.broadcasting and not config.consume_broadcast_enable)
    )
    return bool(motion.watched.last.behind) and not is_refused
