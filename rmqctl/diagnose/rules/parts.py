"""Parts of symptoms that several checks share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Evidence, Severity, Symptom, command
from rmqctl.model.group import GroupState, Subscription
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import QueueProgress
from rmqctl.rules.clock_skew import ClockBounds, SkewBounds
from rmqctl.text.words import by_value, counted, who_has


def subscriptions_as_evidence(topic: str, holders: Mapping[str, Subscription]) -> tuple[Evidence, ...]:
    """Return each client's or broker's subscription to a topic, at the time of its version."""
    return tuple(Evidence(topic, item.expression, name, item.version_ms) for name, item in holders.items())


def waiting(facts: GroupFacts) -> tuple[str, tuple[Evidence, ...], Severity] | None:
    """Return in words how many messages wait without a member, where, and how bad that is; None without any.

    Failed messages in a retry topic have been delivered before: alone, they are only a WARNING. A retry topic of pops
    also has messages that never failed: their member was killed.
    """
    counts = {topic.topic: topic.waiting_count for topic in facts.topics if topic.waiting_count}
    total = sum(counts.values())
    evidence = tuple(Evidence("waiting", count, topic) for topic, count in counts.items())
    if not total:
        return None
    severity = Severity.WARNING if set(counts) == {f"{RETRY_PREFIX}{facts.group}"} else Severity.ERROR
    return f"{counted(total, 'message')} {'waits' if total == 1 else 'wait'}", evidence, severity


def refusal_severity(facts: GroupFacts) -> Severity:
    """Return how bad it is that a broker refuses pulls: without members, it matters only when one joins."""
    return Severity.WARNING if facts.state is GroupState.EMPTY else Severity.ERROR


def fails_now(facts: GroupFacts) -> bool:
    """Return whether the listener of a member that sends messages back failed in the last minute."""
    return any(
        status.consume_failed_tps > 0
        for client_id in facts.senders
        for status in facts.running[client_id].statuses.values()
    )


def clock_evidence(name: str, bounds: ClockBounds | SkewBounds) -> tuple[Evidence, ...]:
    """Return the bounds of how far the clock of a client or broker is ahead of this machine's."""
    return (Evidence("skewLowMs", bounds.low_ms, name), Evidence("skewHighMs", bounds.high_ms, name))


def show_subscriptions(facts: GroupFacts) -> str:
    """Return the command that shows each member's subscriptions."""
    return command("group", "subscriptions", facts.group, "-o", "wide")


def show_letters(facts: GroupFacts, word: str) -> str:
    """Return the `dlq` command that shows dead letters, or that makes them readable where they are not."""
    if facts.closed_letter_brokers:
        return command("dlq", "show", facts.group, "--fix-permission", "--dry-run")
    return command("dlq", word, facts.group)


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


def start_last(facts: GroupFacts, row: QueueProgress) -> frozenset[str]:
    """Return the members that pull a queue and start at the last offset where no offset is stored.

    They are its holders, or every member if none holds it and all answered; none if one of them starts elsewhere.
    """
    sharers, settings = facts.sharers, facts.settings
    holders = sharers & set(row.client_ids)
    if not holders and not row.client_ids and not facts.silent:
        holders = sharers
    starts = {settings[client_id].consume_from_where for client_id in holders}
    return holders if facts.is_online and starts == {_LAST_OFFSET} and not facts.is_popped(row.mq) else frozenset()
