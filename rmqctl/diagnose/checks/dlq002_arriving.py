"""DLQ002: dead letters arrive now."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_letters
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

_RECENT_MS = 10 * 60_000


@check(
    "DLQ002",
    Severity.WARNING,
    "dead letters arrive now",
    meaning="Messages have failed as often as the group allows and become dead letters now. Nothing redelivers them "
    "automatically.",
    advice="Find out why they fail: rmqctl dlq show GROUP. After the fix: rmqctl dlq replay GROUP --dry-run.",
    needs=(Need.BROKERS,),
)
def arriving(facts: GroupFacts) -> Iterator[Symptom]:
    """Check when the newest dead letter was stored, by the brokers' clocks."""
    last_ms = facts.last_dead_letter_at_ms
    if not facts.dead_letter_count or last_ms is None:
        return
    age_ms = facts.at_ms + facts.clocks.reference.low_ms - last_ms
    if age_ms < _RECENT_MS:
        yield Symptom(
            f"The newest of {counted(facts.dead_letter_count, 'dead letter')} was stored "
            f"{short_duration(max(0, age_ms))} ago.",
            (Evidence("deadLetterCount", facts.dead_letter_count, "brokers", last_ms),),
            show_letters(facts, "show"),
        )
