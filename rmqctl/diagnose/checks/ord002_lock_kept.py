"""ORD002: an orderly member keeps the lock of a queue that was revoked from it."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.words import counted, listed


@check(
    "ORD002",
    Severity.WARNING,
    "an orderly member does not release the lock of a queue",
    meaning="The queue is assigned to another member now. The old one still has a message of it in its listener and "
    "keeps the lock until the listener returns. Until then, no other member consumes the queue.",
    advice="Find out what the listener of that member does with its message (thread dump), or restart the member.",
    needs=(Need.MEMBERS,),
    may_pass=True,
)
def lock_kept(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for revoked queues that the member failed to unlock (ProcessQueueInfo.tryUnlockTimes)."""
    for client_id, info in facts.running.items():
        kept = sorted(mq for mq, each in info.process_queues.items() if each.dropped and each.unlock_tries > 0)
        if kept:
            yield Symptom(
                f"{counted(len(kept), 'queue', 'was')} revoked from {client_id}, which keeps the lock because its "
                f"listener has not returned: {listed(kept)}.",
                tuple(
                    Evidence("tryUnlockTimes", info.process_queues[mq].unlock_tries, f"{client_id} {mq}") for mq in kept
                ),
                command("group", "members", facts.group, "-o", "wide"),
                key=client_id,
            )
