"""OFF003: offsets are stored for queues that do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.group import GroupState
from rmqctl.text.words import agreeing, counted, listed


@check(
    "OFF003",
    Severity.INFO,
    "offsets are stored for queues that do not exist",
    meaning="A topic was deleted or its queue count was reduced. When the queues are created again, the group starts "
    "from the old offset and ignores the members' consumeFromWhere.",
    advice="Delete the offsets of deleted topics while the group has no members: rmqctl offset delete GROUP "
    "--leftovers --dry-run.",
    needs=(Need.BROKERS,),
)
def leftovers(facts: GroupFacts) -> Iterator[Symptom]:
    """Report the stored offsets of queues that are not in any route."""
    if not facts.has_leftovers:
        return
    queues = [str(mq) for mq in facts.leftovers]
    if len(queues) == 1:
        sentence = f"An offset is stored for a queue that does not exist: {queues[0]}."
    elif queues:
        count = counted(len(queues), "queue")
        sentence = f"Offsets are stored for {count} that {agreeing(len(queues), 'does')} not exist: {listed(queues)}."
    else:
        sentence = "Offsets are stored for queues that do not exist."
    yield Symptom(
        sentence,
        tuple(
            Evidence("consumerOffset", queue, mq.broker_name) for queue, mq in zip(queues, facts.leftovers, strict=True)
        ),
        # It refuses while there are members, and deletes the offsets of deleted topics only.
        command("offset", "delete", facts.group, "--leftovers", "--dry-run")
        if facts.state is GroupState.EMPTY and any(mq.topic not in facts.stored_topics for mq in facts.leftovers)
        else None,
    )
