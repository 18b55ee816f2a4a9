"""DLQ001: the group has dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_letters
from rmqctl.text.words import counted


@check(
    "DLQ001",
    Severity.INFO,
    "the group has dead letters",
    meaning="Messages that failed more often than the group allows are in its dead-letter topic. They are deleted "
    "when the retention ends.",
    advice="Show them with rmqctl dlq show GROUP. Resend them with rmqctl dlq replay GROUP.",
    needs=(Need.BROKERS,),
)
def dead_letters(facts: GroupFacts) -> Iterator[Symptom]:
    """Count the messages in the group's dead-letter topic."""
    if facts.dead_letter_count:
        yield Symptom(
            f"The group has {counted(facts.dead_letter_count, 'dead letter')}.",
            (Evidence("deadLetterCount", facts.dead_letter_count, "brokers"),),
            show_letters(facts, "stats"),
        )
