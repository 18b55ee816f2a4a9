"""SUB005: a broker has an older subscription than a member, and refuses its pulls."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions, subscriptions_as_evidence
from rmqctl.text.words import listed


@check(
    "SUB005",
    Severity.ERROR,
    "a broker has an older subscription than its members",
    meaning="The broker refuses a pull whose subscription is newer than its own (25 SUBSCRIPTION_NOT_LATEST). The "
    "member's next heartbeat ends that within 30 s. If it persists, heartbeats do not reach that broker.",
    advice="Check the member's log for failed heartbeats, and the network between it and the broker.",
    may_pass=True,
)
def broker_behind(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare versions member by member, at the brokers where each is registered."""
    wanted = facts.wanted()
    for topic, by_broker in facts.filtered().items():
        for broker_name, held in by_broker.items():
            registered = facts.registered(broker_name)
            ahead = {
                client_id: item
                for client_id, item in wanted.get(topic, {}).items()
                if client_id in registered and item.version_ms > held.version_ms
            }
            if ahead:
                yield Symptom(
                    f"{broker_name} has an older subscription to {topic} than {listed(ahead)}: "
                    "it refuses their pulls (25 SUBSCRIPTION_NOT_LATEST).",
                    (
                        Evidence(topic, held.expression, broker_name, held.version_ms),
                        *subscriptions_as_evidence(topic, ahead),
                    ),
                    show_subscriptions(facts),
                    topic,
                    key=f"{topic}@{broker_name}",
                )
