"""SUB002: only some members subscribe to a topic."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions, subscriptions_as_evidence
from rmqctl.text.words import counted, listed


@check(
    "SUB002",
    Severity.ERROR,
    "only some members subscribe to a topic",
    meaning="A heartbeat lists all topics of its member, and the broker drops every other topic of the group. Members "
    "with different topics drop each other's: pulls are refused (24 SUBSCRIPTION_NOT_EXIST) until the next heartbeat. "
    "Each topic is shared among all members, so the queues of members that do not subscribe are not consumed.",
    advice="Subscribe all members of a group to the same topics, or use one group per set of topics.",
)
def topics_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare the topics that members subscribe to."""
    every = sorted(client_id for client_id, info in facts.running.items() if info.subscriptions)
    for topic, by_client in facts.wanted().items():
        lacking = [client_id for client_id in every if client_id not in by_client]
        if lacking:
            yield Symptom(
                f"{len(by_client)} of {counted(len(every), 'member')} subscribe to {topic}; "
                f"not subscribed: {listed(lacking)}.",
                (
                    *subscriptions_as_evidence(topic, by_client),
                    *(Evidence(topic, "not subscribed", client_id) for client_id in lacking),
                ),
                show_subscriptions(facts),
                topic,
            )
