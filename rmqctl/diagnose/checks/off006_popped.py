"""OFF006: popped messages are not acknowledged, and no lag counts them."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.words import counted


@check(
    "OFF006",
    Severity.INFO,
    "popped messages are in flight",
    meaning="A pop moves the group's offset immediately. Popped messages are not part of the lag until their "
    "invisible time ends.",
    advice="Add them to the lag to judge the group's progress.",
    needs=(Need.MEMBERS,),
)
def popped(facts: GroupFacts) -> Iterator[Symptom]:
    """Sum the messages that members report as popped and not acknowledged."""
    counts = {client_id: sum(info.pop_unacked.values()) for client_id, info in facts.running.items()}
    total = sum(counts.values())
    if total:
        yield Symptom(
            f"{counted(total, 'message', 'is')} popped but not acknowledged: LAG does not count them.",
            tuple(Evidence("popUnackedCount", count, client_id) for client_id, count in counts.items() if count),
            command("group", "members", facts.group, "-o", "wide"),
        )
