"""PRG003: a group's position moves backwards."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts, QueueMotion
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.motions import by_topic_and_member, shared_motions
from rmqctl.rules.stuck_queues import client_now_ms
from rmqctl.text.words import counted

# Clients commit every 5 s: messages that were finished earlier than this are committed.
_COMMITTED_MS = 15_000


@check(
    "PRG003",
    Severity.WARNING,
    "the group's position moves backwards",
    meaning="An offset was smaller at the second reading, or is behind the position of a member that has been quiet. "
    "Members commit every 5 s, so another process writes offsets of this group. After the next rebalance or restart, "
    "messages are consumed again from there.",
    advice="Find the other process that commits for this group: a second application with its name, a script, a tool "
    "that copies offsets. A reset in progress looks the same: rmqctl offset history GROUP.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.MOTION),
    may_pass=True,
)
def rewound(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the positions of both readings, and the stored offset with the member's own."""
    back = {id(each): amount for each in shared_motions(facts) if (amount := _back(facts, each)) > 0}
    for (topic, client_id), motions in by_topic_and_member(each for each in facts.motions if id(each) in back).items():
        worst = max(motions, key=lambda each: back[id(each)])
        more = f" (also in {counted(len(motions) - 1, 'other queue')} of {topic})" if len(motions) > 1 else ""
        yield Symptom(
            f"The offset of {worst.mq} moved back by {counted(back[id(worst)], 'message')}{more} "
            f"while {client_id} holds it. A reset in progress looks the same.",
            tuple(
                Evidence(
                    "consumerOffset",
                    f"{each.mq} {each.watched.first.consumer_offset} then {each.watched.last.consumer_offset}, "
                    f"member at {each.watched.last.commit_offset}",
                    each.mq.broker_name,
                )
                for each in motions
            ),
            command("offset", "history", facts.group),
            topic,
            key=f"{topic} {client_id}",
        )


def _back(facts: GroupFacts, motion: QueueMotion) -> int:
    """Return by how many messages a position moved back, 0 if it did not."""
    first, last = motion.watched.first, motion.watched.last
    stored = (first.consumer_offset or 0) - (last.consumer_offset or 0) if last.consumer_offset is not None else 0
    return max(-(motion.watched.advance or 0), stored, _uncommitted(facts, motion))


def _uncommitted(facts: GroupFacts, motion: QueueMotion) -> int:
    """Return how far the stored offset is behind the member's position, 0 where the next commit may still be due.

    A filter lets a member pass messages without consuming them: its position moves, or those messages are new.
    """
    first, last = motion.watched.first, motion.watched.last
    held, position = last.held, last.commit_offset
    if held is None or position is None or position != first.commit_offset:
        return 0
    if first.consumer_offset is None or last.consumer_offset is None:
        return 0
    gap = position - max(first.consumer_offset, last.consumer_offset)
    info = facts.running.get(motion.client_id or "")
    if gap <= 0 or info is None or held.last_consume_at_ms is None:
        return 0
    quiet_ms = (client_now_ms(info) or 0) - held.last_consume_at_ms
    head_age_ms = max((row.time_lag_ms or 0 for row in facts.rows if row.mq == motion.mq), default=0)
    return gap if min(quiet_ms, head_age_ms) >= _COMMITTED_MS else 0
