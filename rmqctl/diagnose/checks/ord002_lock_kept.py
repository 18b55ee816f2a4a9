"""ORD002: an orderly member gave a queue up and keeps its lock."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.rules.words import counted, listed


@check(
    "ORD002",
    Severity.WARNING,
    "an orderly member does not let go of a queue",
    meaning="The queue belongs to another member now. The old one still has a message of it in its listener and keeps "
    "the lock until that returns, so no other member consumes the queue.",
    advice="Look at what the listener of the member does with its message (a thread dump), or restart that member.",
    needs=(Need.MEMBERS,),
    may_pass=True,
)
def lock_kept(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for dropped queues whose unlocking was tried in vain (ProcessQueueInfo.tryUnlockTimes)."""
    for client_id, info in facts.running.items():
        kept = sorted(mq for mq, each in info.process_queues.items() if each.dropped and each.unlock_tries > 0)
        if kept:
            yield Symptom(
                f"{client_id} gave up {counted(len(kept), 'queue')} and keeps the lock, because its listener has "
                f"not returned: {listed(kept)}.",
                tuple(
                    Evidence("tryUnlockTimes", info.process_queues[mq].unlock_tries, f"{client_id} {mq}") for mq in kept
                ),
                command("group", "members", facts.group, "-o", "wide"),
                key=client_id,
            )
