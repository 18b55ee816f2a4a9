"""ALO002: a member's queues differ from its computed share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check, command
from rmqctl.diagnose.rules.shares import compute_shares
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Options
from rmqctl.text.words import counted, listed
from rmqctl.whatif.strategy_match import compare_with_real


@check(
    "ALO002",
    Severity.ERROR,
    "a member's queues differ from its computed share",
    meaning="Every member computes its share from the list of queues and the list of members. A member with a "
    "different share saw other lists, cannot lock a queue, or no longer rebalances. Queues that it lacks may have no "
    "owner (ALO003); queues that it has in excess may have two (ALO004).",
    advice="Compare the members that each broker lists (MEM002): rmqctl group members GROUP -o wide. Then check the "
    "RebalanceService thread of that member.",
    may_pass=True,
)
def other_share(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare each member's real queues with the computed ones, client by client."""
    computed = compute_shares(facts)
    if computed is None:
        return
    snapshot = computed.snapshot
    match = compare_with_real(snapshot, computed.shares, Options())
    reporting = facts.holders()
    for client_id in match.differing if match is not None else ():
        if client_id not in reporting or client_id not in computed.members:
            continue
        due, held = computed.due(client_id), computed.members[client_id].pulled
        # A retry topic is created at the first heartbeat; members discover it up to 30 s later.
        lacking = sorted(mq for mq in due - held if not mq.topic.startswith(RETRY_PREFIX))
        surplus = sorted(mq for mq in held - due if mq.topic in snapshot.topics)
        if lacking or surplus:
            parts = [f"lacks {_queues(lacking)}"] * bool(lacking)
            parts += [f"holds {_queues(surplus)} in excess"] * bool(surplus)
            yield Symptom(
                f"{client_id} does not hold the share that {computed.strategy} assigns to it: "
                f"it {' and '.join(parts)}.",
                (
                    Evidence("queues", sorted(map(str, held)), client_id),
                    Evidence("computed", sorted(map(str, due)), "rmqctl"),
                ),
                command("whatif", "allocate", facts.group),
                # The same queues at both looks: other queues mean a rebalance in progress.
                key=f"{client_id} {lacking} {surplus}",
            )


def _queues(queues: Sequence[MessageQueue]) -> str:
    return f"{counted(len(queues), 'queue')} ({listed(queues)})"
