"""SUB003: members filter one topic by different expression types."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions
from rmqctl.text.words import by_value, who_has


@check(
    "SUB003",
    Severity.ERROR,
    "members use tags and SQL92 for one topic",
    meaning="A broker keeps one expression per topic and group, whatever its type: the newest one applies to all "
    "members. Messages that the others want are skipped and never delivered.",
    advice="Give every member the same expression type and the same expression.",
)
def types_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the expression types of members."""
    for topic, by_client in facts.wanted().items():
        types = by_value((client_id, item.expression_type) for client_id, item in by_client.items())
        if len(types) > 1:
            yield Symptom(
                f"Members filter {topic} by different expression types: {who_has(types)}.",
                tuple(
                    Evidence(topic, f"{item.expression_type} {item.expression}", client_id, item.version_ms)
                    for client_id, item in by_client.items()
                ),
                show_subscriptions(facts),
                topic,
            )
