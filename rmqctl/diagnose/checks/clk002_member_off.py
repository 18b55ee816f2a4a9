"""CLK002: a member's clock is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.clocks import CLEAR_MS, skew_words
from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import clock_evidence

_INFO_MS = 1_000


@check(
    "CLK002",
    Severity.WARNING,
    "a member's clock is off",
    meaning="Subscriptions are ordered by version, which is a time of the member's own clock. A member whose clock is "
    "ahead overrules the others; one whose clock is behind cannot change the group's filter. CONSUME_FROM_TIMESTAMP "
    "starts at a different message than intended. Retry delays and the timeouts of locks and members each depend on a "
    "single clock and are not affected.",
    advice="Synchronise the clock of the member's host (NTP), then restart the member: its versions do not change "
    "before that.",
    needs=(Need.MEMBERS, Need.CLOCKS),
)
def member_off(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the proven bounds of each member's clock with those of all brokers' clocks."""
    for client_id, bounds in facts.clocks.off().items():
        off_ms = bounds.off_ms()
        if abs(off_ms) > _INFO_MS:
            yield Symptom(
                f"The clock of {client_id} is {skew_words(bounds)} {facts.clocks.reference_name}.",
                clock_evidence(client_id, facts.clocks.members[client_id]),
                command("diagnose", facts.group, "--only", "CLK", "--probe"),
                key=client_id,
                severity=Severity.WARNING if abs(off_ms) > CLEAR_MS else Severity.INFO,
            )
