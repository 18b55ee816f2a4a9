"""POP001: a broker does not redeliver what popping members do not acknowledge."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.rules.durations import short_duration
from rmqctl.rules.words import counted

# The broker looks each second; a broker that was just started first waits for its timers.
_LATE_MS = 60_000


@check(
    "POP001",
    Severity.WARNING,
    "a broker does not redeliver popped messages",
    meaning="What a member pops and does not acknowledge is redelivered by the broker when its invisible time is over "
    "(PopReviveService). This broker is late with that: such messages stay away, and no lag counts them. That concerns "
    "every popping group of the broker.",
    advice="Look into the broker's pop.log, at its disk, and at its setting reviveInterval.",
    needs=(Need.BROKERS, Need.BACKLOG),
)
def not_redelivered(facts: GroupFacts) -> Iterator[Symptom]:
    """Look at how long the oldest record of each broker's revive queues is due."""
    for name, found in facts.unrevived.items():
        if found.overdue_ms >= _LATE_MS:
            yield Symptom(
                f"{name} is {short_duration(found.overdue_ms)} late to redeliver popped messages "
                f"({counted(found.record_count, 'record')} of pops in its revive queues).",
                (
                    Evidence("unrevivedCount", found.record_count, name),
                    Evidence("overdueMs", found.overdue_ms, name),
                ),
                command("broker", "show", name, "--key", "*revive*"),
                key=name,
            )
