"""SUB001: members filter one topic by different expressions."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions, subscriptions_as_evidence
from rmqctl.text.words import by_value, listed, who_has


@check(
    "SUB001",
    Severity.ERROR,
    "members filter a topic differently",
    meaning="A broker keeps one filter per topic and group: the one with the newest version. It applies that filter "
    "to the pulls of every member, so messages that another member wants are skipped and never delivered.",
    advice="Give every member the same expression, and deploy all of them. Until then, the filter of the newest "
    "member applies; `rmqctl group subscriptions GROUP -o wide` shows each member's filter.",
)
def filters_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the expressions of members that select by the same type."""
    filtered = facts.filtered()
    for topic, by_client in facts.wanted().items():
        by_key: dict[tuple[str, str], list[str]] = {}
        for client_id, item in by_client.items():
            by_key.setdefault(item.filter_key, []).append(client_id)
        types = {kind for kind, _ in by_key}
        for kind in sorted(types):
            alike = {text: client_ids for (own, text), client_ids in sorted(by_key.items()) if own == kind}
            if len(alike) > 1:
                at_brokers = filtered.get(topic, {})
                used = by_value((name, item.filter_key[1]) for name, item in at_brokers.items())
                by = "; ".join(
                    f"{listed(names)} deliver{'s' * (len(names) == 1)} only {text}" for text, names in used.items()
                )
                yield Symptom(
                    f"Members filter {topic} differently: {who_has(alike, between='; ')}{f'; {by}' if by else ''}.",
                    subscriptions_as_evidence(topic, by_client | at_brokers),
                    show_subscriptions(facts),
                    topic,
                )
