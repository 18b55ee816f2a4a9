"""SUB004: a broker filters by an expression that no member has."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions, subscriptions_as_evidence
from rmqctl.model.group import Subscription
from rmqctl.text.times import iso_time


@check(
    "SUB004",
    Severity.ERROR,
    "a broker filters by an expression that no member has",
    meaning="The broker keeps the expression with the newest version. If a member with a fast clock, or one that "
    "left, set a newer one, the members' own expression never applies there. Their messages are skipped and never "
    "delivered.",
    advice="Restart the members once their clocks are right: the version of a subscription is the time at which its "
    "member started. A version from the future (SUB006) remains until all members have left that broker.",
    may_pass=True,
)
def broker_filter(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare each broker's expression with the one that all members agree on."""
    wanted = facts.wanted()
    for topic, by_broker in facts.filtered().items():
        members = wanted.get(topic, {})
        keys = {item.filter_key for item in members.values()}
        if len(keys) != 1 or facts.silent:
            continue
        newest = max(members.values(), key=lambda item: item.version_ms)
        for broker_name, item in by_broker.items():
            if item.filter_key in keys:
                continue
            yield Symptom(
                f"{broker_name} filters {topic} by {item.expression} (version {_version(item)}), "
                f"while every member subscribes to {newest.expression} (newest version {_version(newest)}).",
                (
                    Evidence(topic, item.expression, broker_name, item.version_ms),
                    *subscriptions_as_evidence(topic, members),
                ),
                show_subscriptions(facts),
                topic,
                key=f"{topic}@{broker_name}",
            )


def _version(subscription: Subscription) -> str:
    """Return a version as a time, or unchanged when it cannot be one in ms (Go clients use ns)."""
    return iso_time(subscription.version_ms) or str(subscription.version_ms)
