"""ORD001: an orderly member does not have the lock of a queue that it holds."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.words import counted, listed


@check(
    "ORD001",
    Severity.ERROR,
    "an orderly member has lost the lock of a queue",
    meaning="An orderly member consumes a queue only while it has the queue's lock at the broker, which it renews "
    "every 20 s. Without the lock, it does not consume the queue. Another client has the lock, a client left without "
    "releasing it (it expires after 60 s), or the broker does not answer.",
    advice="Look for clients of the group that hang or do not shut down, and check the network to the broker. If no "
    "client has the lock, it is free 60 s after its last renewal.",
    needs=(Need.MEMBERS,),
    may_pass=True,
)
def lock_lost(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for queues that orderly members hold without their lock (ProcessQueueInfo.locked)."""
    sharers = facts.sharers
    for client_id, own in facts.settings.items():
        if not own.is_orderly or client_id not in sharers:
            continue
        held = facts.running[client_id].process_queues
        lost = sorted(mq for mq, each in held.items() if not each.dropped and not each.locked)
        if lost:
            yield Symptom(
                f"{client_id} does not have the lock of {counted(len(lost), 'queue')} that it holds: {listed(lost)}.",
                tuple(Evidence("locked", False, f"{client_id} {mq}", held[mq].locked_at_ms) for mq in lost),
                command("group", "members", facts.group, "-o", "wide"),
                key=client_id,
            )
