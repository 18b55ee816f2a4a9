"""Parts of symptoms that several checks share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Symptom, command
from rmqctl.model.group import Subscription
from rmqctl.rules.clock_skew import ClockBounds, SkewBounds
from rmqctl.text.words import by_value, counted, who_has


def subscriptions_as_evidence(topic: str, holders: Mapping[str, Subscription]) -> tuple[Evidence, ...]:
    """Return each client's or broker's subscription to a topic, at the time of its version."""
    return tuple(Evidence(topic, item.expression, name, item.version_ms) for name, item in holders.items())


def waiting(facts: GroupFacts) -> tuple[str, tuple[Evidence, ...]] | None:
    """Return in words how many messages wait, and where; None without waiting messages."""
    counts = {topic.topic: topic.waiting_count for topic in facts.topics if topic.waiting_count}
    total = sum(counts.values())
    evidence = tuple(Evidence("waiting", count, topic) for topic, count in counts.items())
    return (f"{counted(total, 'message')} {'waits' if total == 1 else 'wait'}", evidence) if total else None


def clock_evidence(name: str, bounds: ClockBounds | SkewBounds) -> tuple[Evidence, ...]:
    """Return the bounds of how far the clock of a client or broker is ahead of this machine's."""
    return (Evidence("skewLowMs", bounds.low_ms, name), Evidence("skewHighMs", bounds.high_ms, name))


def show_subscriptions(facts: GroupFacts) -> str:
    """Return the command that shows each member's subscriptions."""
    return command("group", "subscriptions", facts.group, "-o", "wide")


def differing(
    facts: GroupFacts, key: str, what: str, reported: Mapping[str, str | None], at_brokers: Mapping[str, str | None]
) -> Iterator[Symptom]:
    """Compare the values that members report, and those of brokers where the members that answered agree."""
    by_members = by_value(reported.items())
    every = by_value((*reported.items(), *at_brokers.items()))
    shown = by_members if len(by_members) > 1 else every
    if len(shown) > 1:
        who = "Members use" if len(by_members) > 1 else "Brokers and members report"
        yield Symptom(
            f"{who} different {what}: {who_has(shown)}.",
            tuple(Evidence(key, value, name) for name, value in (*reported.items(), *at_brokers.items()) if value),
            command("group", "members", facts.group, "-o", "wide"),
        )


_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"


def starts_last(facts: GroupFacts) -> bool:
    """Return whether every member answered and starts at the last offset where no offset is stored."""
    reported = {own.consume_from_where for own in facts.settings.values()}
    return (
        facts.is_online
        and reported == {_LAST_OFFSET}
        and not facts.silent
        and not facts.is_broadcasting
        and not facts.is_popping
    )
