"""DLQ003: the group's dead letters cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_letters
from rmqctl.model.names import dead_letter_topic
from rmqctl.text.words import counted, listed


@check(
    "DLQ003",
    Severity.WARNING,
    "the dead-letter topic has no read permission",
    meaning="Brokers up to 4.9.1 create the topic write-only, and no broker changes the permission later. Dead letters "
    "are stored there, but nothing can read or resend them until they are deleted. Write permission does not matter: a "
    "broker stores dead letters without it.",
    advice="Add the read permission with rmqctl dlq show GROUP --fix-permission, which can be undone.",
    needs=(Need.BROKERS,),
)
def unreadable(facts: GroupFacts) -> Iterator[Symptom]:
    """Check the permission of the dead-letter topic (PermName.PERM_READ). INFO without dead letters."""
    if facts.closed_letter_brokers:
        count = facts.dead_letter_count
        letters = "" if not count else f" The group has {counted(count, 'dead letter')}."
        yield Symptom(
            f"{dead_letter_topic(facts.group)} is not readable at {listed(facts.closed_letter_brokers)}.{letters}",
            tuple(Evidence("perm", "not readable", name) for name in facts.closed_letter_brokers),
            show_letters(facts, "show"),
            severity=Severity.INFO if count == 0 else None,
        )
