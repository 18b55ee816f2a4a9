"""OFF005: messages wait, and the group has no members."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check, command
from rmqctl.diagnose.parts import waiting
from rmqctl.model.group import GroupState


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
    found = waiting(facts)
    if found is not None and facts.state is GroupState.EMPTY:
        words, evidence = found
        yield Symptom(
            f"{words}, and no broker sees a member of {facts.group}.",
            evidence,
            command("offset", "show", facts.group),
        )
