"""OFF005: messages wait, and the group has no members."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.model.group import GroupState
from rmqctl.rules.words import counted


@check(
    "OFF005",
    Severity.WARNING,
    "messages wait, and no broker sees a member",
    meaning="Nothing consumes the group's topics. What is not read within the retention is deleted.",
    advice="Start its consumers, or delete the group if it is not used any more: rmqctl group delete GROUP --dry-run.",
    needs=(Need.BROKERS,),
)
def no_members(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for lag of a group that no broker sees members of."""
    lag = sum(topic.lag for topic in facts.topics)
    if lag and facts.state is GroupState.EMPTY:
        yield Symptom(
            f"{counted(lag, 'message')} {'waits' if lag == 1 else 'wait'}, "
            f"and no broker sees a member of {facts.group}.",
            tuple(Evidence("lag", topic.lag, topic.topic) for topic in facts.topics if topic.lag),
            command("offset", "show", facts.group),
        )
