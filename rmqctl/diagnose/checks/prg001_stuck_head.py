"""PRG001: a member has had the same message in flight for too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import by_topic_and_member
from rmqctl.diagnose.rules.refusals import may_clean
from rmqctl.rules.stuck_queues import AgeSource, StuckReason
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

_DOES: Mapping[StuckReason, str] = {
    StuckReason.IN_CONSUMPTION: "has had {message} in its listener for at least {time}",
    StuckReason.BLOCKED_IN_ORDER: "consumes in order and has not finished {message} for at least {time}",
    StuckReason.LOCAL_RETRY: "has failed on {message} for at least {time}, and no broker stores it for a retry",
}
_HAS = "has had {message} in flight for at least {time}"


@check(
    "PRG001",
    Severity.ERROR,
    "a message is stuck at the head of a queue",
    meaning="The offset of a queue cannot move past an unfinished message. Messages behind it may be processed but "
    "are not committed: a crash or the next rebalance redelivers them.",
    advice="Show the message and the thread: rmqctl clean-expired GROUP. Fix what the listener waits for. To free the "
    "queue: rmqctl clean-expired GROUP --older-than 1m --dry-run.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.MOTION),
)
def stuck_head(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for queues that the scan for stuck messages judges stuck (a minute, or three times the usual time)."""
    for (topic, client_id), motions in by_topic_and_member(each for each in facts.motions if each.is_stuck).items():
        worst = max(motions, key=lambda each: each.in_hand_ms)
        waits = _may_wait(worst)
        does = _HAS if worst.verdict is None or waits else _DOES.get(worst.verdict.why, _HAS)
        what = does.format(
            message=f"the message at offset {worst.head_offset} of {worst.mq}", time=short_duration(worst.in_hand_ms)
        )
        behind = max(0, (worst.watched.last.max_offset or 0) - (worst.head_offset or 0) - 1)
        more = f"; {counted(len(motions) - 1, 'more queue', 'is')} stuck in {topic}" if len(motions) > 1 else ""
        busy = " All threads of the member are in the listener" if worst.is_exhausted else ""
        busy += ": the message may wait for one." if waits else "." if busy else ""
        yield Symptom(
            f"{client_id} {what}; {counted(behind, 'message')} {'is' if behind == 1 else 'are'} behind it{more}.{busy}",
            tuple(Evidence("firstUnfinished", f"{each.mq} {each.head_offset}", client_id) for each in motions),
            command("clean-expired", facts.group, "--topic", topic, "--older-than", "1m", "--dry-run")
            if not waits and may_clean(facts, motions)
            else command("clean-expired", facts.group, "--topic", topic),
            topic,
            key=f"{topic} {client_id}",
        )


def _may_wait(motion: QueueMotion) -> bool:
    """Return whether nothing shows that the head is one of the messages that the member's threads have."""
    verdict = motion.verdict
    is_told = verdict is None or verdict.source is AgeSource.REPORTED
    return motion.is_exhausted and not is_told and not motion.watched.is_orderly
