"""PRG007: a member will send back a message that its listener is still processing."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import by_topic_and_member
from rmqctl.rules.stuck_queues import StuckReason
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

_NEAR = 0.8


@check(
    "PRG007",
    Severity.WARNING,
    "a message that is still being processed is about to be redelivered",
    meaning="A member that does not consume in order sends a message back when its listener has had it for longer "
    "than consumeTimeout. The message is redelivered 10 s later while the listener is still processing it, so it is "
    "processed twice.",
    advice="Raise consumeTimeout above the processing time of a message, or make the listener return earlier. To see "
    "the thread: rmqctl clean-expired GROUP.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.MOTION),
)
def consume_timeout(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare how long heads have been in consumption with consumeTimeout (ProcessQueue.cleanExpiredMsg)."""
    # Nothing is redelivered to a member that broadcasts.
    settings = {client_id: own for client_id, own in facts.settings.items() if client_id in facts.sharers}
    near = []
    for each in facts.motions:
        own = settings.get(each.client_id or "")
        if own is not None and own.is_orderly is False and _is_near(each, own.consume_timeout_ms):
            near.append(each)
    for (topic, client_id), motions in by_topic_and_member(near).items():
        limit_ms = settings[client_id].consume_timeout_ms or 0
        worst = max(motions, key=lambda each: each.in_hand_ms)
        yield Symptom(
            f"The listener of {client_id} has had the message at offset {worst.head_offset} of {worst.mq} for at least "
            f"{short_duration(worst.in_hand_ms)} of {short_duration(limit_ms)} (consumeTimeout). The client then sends "
            f"{counted(len(motions), 'such message')} of {topic} back for redelivery.",
            (
                Evidence("consumeTimeoutMs", limit_ms, client_id),
                *(Evidence("inConsumptionMs", each.in_hand_ms, f"{client_id} {each.mq}") for each in motions),
            ),
            command("clean-expired", facts.group, "--topic", topic),
            topic,
            key=f"{topic} {client_id}",
        )


def _is_near(motion: QueueMotion, limit_ms: int | None) -> bool:
    """Return whether the listener has had the message for almost the limit; one that waits is not sent back."""
    verdict = motion.verdict
    if verdict is None or verdict.at_least_ms is None or not limit_ms or verdict.at_least_ms < _NEAR * limit_ms:
        return False
    return verdict.why in (StuckReason.IN_CONSUMPTION, StuckReason.SLOW) and (
        motion.is_stuck or not motion.is_exhausted
    )
