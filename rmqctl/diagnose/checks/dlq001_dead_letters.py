"""DLQ001: the group has dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.rules.words import counted


@check(
    "DLQ001",
    Severity.INFO,
    "dead letters are kept",
    meaning="Messages that failed more often than the group allows are in its dead-letter topic. They are deleted when "
    "their retention is over.",
    advice="See them with rmqctl dlq show GROUP; send them again with rmqctl dlq replay GROUP.",
    needs=(Need.BROKERS,),
)
def dead_letters(facts: GroupFacts) -> Iterator[Symptom]:
    """Count what the brokers keep in the group's dead-letter topic."""
    if facts.dead_letter_count:
        yield Symptom(
            f"{counted(facts.dead_letter_count, 'dead letter', 'is')} kept.",
            (Evidence("deadLetterCount", facts.dead_letter_count, "brokers"),),
            command("dlq", "stats", facts.group),
        )
