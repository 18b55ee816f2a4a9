"""SUB008: a broker has no subscription to a topic that all members want."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions, subscriptions_as_evidence
from rmqctl.text.words import listed


@check(
    "SUB008",
    Severity.ERROR,
    "a broker does not know a topic that the members subscribe to",
    meaning="The broker refuses every pull of that topic (24 SUBSCRIPTION_NOT_EXIST). It learns topics from "
    "heartbeats; a heartbeat of a member with other topics removes them (SUB002).",
    advice="Look for a member that subscribes to other topics, or for heartbeats that do not reach the broker.",
    may_pass=True,
)
def broker_without(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the topics that every member names with those of each broker where members are registered."""
    filtered = facts.filtered()
    with_members = [name for name, found in facts.connections.items() if found is not None and found.members]
    every = {client_id for client_id, info in facts.running.items() if info.subscriptions}
    for topic, by_client in facts.wanted().items():
        lacking = sorted(set(with_members) - filtered.get(topic, {}).keys())
        if lacking and by_client.keys() == every:
            yield Symptom(
                f"{listed(lacking)} has no subscription to {topic}: it refuses the members' pulls "
                "(24 SUBSCRIPTION_NOT_EXIST).",
                (
                    *(Evidence(topic, "no subscription", broker_name) for broker_name in lacking),
                    *subscriptions_as_evidence(topic, by_client),
                ),
                show_subscriptions(facts),
                topic,
            )
