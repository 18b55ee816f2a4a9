"""MEM010: members keep joining and leaving."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.membership import find_flapping
from rmqctl.text.words import counted, listed


@check(
    "MEM010",
    Severity.WARNING,
    "members keep joining and leaving",
    meaning="Whenever a member joins or leaves, all queues are reassigned. The new owner of a queue pulls it from the "
    "committed offset, so messages that were not committed are consumed twice.",
    advice="Find out why processes end or lose their connections: crash loops, memory limits, health checks, a "
    "network that closes idle connections. whatif churn shows the cost.",
    needs=(Need.BROKERS, Need.MEMBERSHIP),
)
def flapping(facts: GroupFacts) -> Iterator[Symptom]:
    """Look for ids that rejoined twice, or joined and left, while the group was watched (--for 1m)."""
    found = find_flapping(facts.memberships)
    if not found.is_seen:
        return
    parts = [f"{name} rejoined {count} times" for name, count in found.returned.items()]
    if found.short_lived:
        parts.append(f"{counted(len(found.short_lived), 'member')} joined and left again: {listed(found.short_lived)}")
    yield Symptom(
        f"Within {facts.sampled_s:g} s, {'; '.join(parts)}.",
        (
            *(Evidence("returns", count, name) for name, count in found.returned.items()),
            *(Evidence("joinedAndLeft", True, name) for name in found.short_lived),
        ),
        command("group", "members", facts.group, "-o", "wide"),
    )
