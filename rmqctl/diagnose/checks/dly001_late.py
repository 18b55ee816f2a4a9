"""DLY001: a broker delivers delayed messages late."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.words import listed


@check(
    "DLY001",
    Severity.WARNING,
    "a broker delivers delayed messages late",
    meaning="Messages with a delay level or a timer, and failed messages between two attempts, wait in system topics "
    "of the broker. Their time is over, and the broker has not stored them in their topics yet: consumers do not see "
    "them, and no lag counts them. All groups of the broker are affected.",
    advice="Check the broker's disk, its store.log, and for timers its settings timerStopDequeue and timerStopEnqueue.",
    needs=(Need.BROKERS, Need.HELD),
)
def late(facts: GroupFacts) -> Iterator[Symptom]:
    """Check how long the next message of each delay level is overdue, and how late the timers are."""
    for name, held in facts.held_back.items():
        if words := held.late_words():
            evidence = [Evidence(f"overdueMs[{each.level}]", each.overdue_ms, name) for each in held.late_levels]
            if held.timers_overdue_ms:
                evidence.append(Evidence("timersOverdueMs", held.timers_overdue_ms, name))
            yield Symptom(
                f"{name} is late with delayed messages: {listed(words)}.",
                tuple(evidence),
                command("doctor", "--where", "check=delays"),
                key=name,
            )
