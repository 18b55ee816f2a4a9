"""SKW004: some members hold many more queues than others."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.rules.member_settings import pulled_queues
from rmqctl.text.words import listed

_FACTOR = 2
_LEAST_DIFFERENCE = 3


@check(
    "SKW004",
    Severity.INFO,
    "members hold uneven numbers of queues",
    meaning="Each topic is shared out separately, and the first members in the order of their ids get the remainder "
    "of each division. Over many topics with few queues, the remainders pile up on the same members.",
    advice="Use queue counts that are divisible by the number of members, or compare other strategies: rmqctl whatif "
    "allocate GROUP --compare all.",
    needs=(Need.MEMBERS,),
)
def queues_per_member(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare how many queues of all topics each member holds."""
    sharers = facts.sharers
    popped = {client_id: {mq.topic for mq in facts.running[client_id].pop_unacked} for client_id in sharers}
    pulling = {
        frozenset(client_id for client_id in sharers & by.keys() if topic not in popped[client_id])
        for topic, by in facts.wanted().items()
    }
    if len(pulling - {frozenset()}) > 1:
        return  # members with different topics (SUB002) have different shares
    counts = {
        client_id: sum(not mq.topic.startswith(RETRY_PREFIX) for mq in pulled_queues(facts.running[client_id]))
        for client_id in sorted(facts.holders() & sharers)
    }
    # MEM008 reports members without a queue.
    some = {client_id: count for client_id, count in counts.items() if count}
    if not some:
        return
    most, fewest = max(some.values()), min(some.values())
    if most >= _FACTOR * fewest and most - fewest >= _LEAST_DIFFERENCE:
        above = [client_id for client_id, count in some.items() if count == most]
        yield Symptom(
            f"{listed(above)} {'holds' if len(above) == 1 else 'hold'} {most} queues, "
            f"other members as few as {fewest}.",
            tuple(Evidence("queueCount", count, client_id) for client_id, count in counts.items()),
            command("whatif", "allocate", facts.group, "--compare", "all"),
        )
