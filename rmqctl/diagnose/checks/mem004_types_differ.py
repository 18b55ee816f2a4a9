"""MEM004: members use different consume types (push, pull, pop)."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Severity, Symptom, check
from rmqctl.diagnose.rules.parts import differing


@check(
    "MEM004",
    Severity.WARNING,
    "members use different consume types",
    meaning="The broker keeps one consume type per group: that of the last heartbeat. Push, lite pull and pop members "
    "treat failed messages and offsets differently. What happens to a message depends on the member that receives it.",
    advice="Use one consumer type per group.",
)
def types_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the consume type that each member and each broker reports."""
    at_brokers = {name: found.consume_type or None for name, found in facts.connections.items() if found is not None}
    yield from differing(facts, "consumeType", "consume types", facts.consume_types(), at_brokers)
