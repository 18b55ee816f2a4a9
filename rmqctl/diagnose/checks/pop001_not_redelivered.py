"""POP001: a broker does not redeliver what popping members do not acknowledge."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

# The broker checks every second; after a start, it first waits for its timers.
_LATE_MS = 60_000


@check(
    "POP001",
    Severity.WARNING,
    "a broker does not redeliver popped messages",
    meaning="When the invisible time ends, the broker redelivers popped messages that are not acknowledged "
    "(PopReviveService). This broker is late: such messages are not redelivered yet, and no lag counts them. All "
    "popping groups of the broker are affected.",
    advice="Check the broker's pop.log, its disk, and its setting reviveInterval.",
    needs=(Need.BROKERS, Need.MEMBERS, Need.BACKLOG),
)
def not_redelivered(facts: GroupFacts) -> Iterator[Symptom]:
    """Check how long the oldest record in each broker's revive queues is overdue."""
    for name, found in facts.unrevived.items():
        if found.overdue_ms >= _LATE_MS:
            yield Symptom(
                f"{name} is {short_duration(found.overdue_ms)} late to redeliver popped messages "
                f"({counted(found.record_count, 'pop record')} in its revive queues).",
                (
                    Evidence("unrevivedCount", found.record_count, name),
                    Evidence("overdueMs", found.overdue_ms, name),
                ),
                command("broker", "show", name, "--key", "*revive*"),
                key=name,
            )
