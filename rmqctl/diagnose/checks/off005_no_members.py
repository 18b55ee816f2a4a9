"""OFF005: messages wait, and the group has no members."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import waiting
from rmqctl.model.group import GroupState


@check(
    "OFF005",
    Severity.ERROR,
    "messages wait, and no broker sees a member",
    meaning="No member consumes the group's topics. Messages that are not read within the retention are deleted. The "
    "finding is only a WARNING where just failed messages wait for a retry.",
    advice="Start the group's consumers, or delete the group if it is no longer used: rmqctl group delete GROUP "
    "--dry-run.",
    needs=(Need.BROKERS,),
)
def no_members(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for lag of a group in which no broker sees members."""
    found = waiting(facts)
    if found is not None and facts.state is GroupState.EMPTY:
        words, evidence, severity = found
        yield Symptom(
            f"{words}, and no broker sees a member of {facts.group}.",
            evidence,
            command("offset", "show", facts.group),
            severity=severity,
        )
