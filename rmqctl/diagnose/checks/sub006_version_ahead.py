"""SUB006: a subscription's version is in the future."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions, subscriptions_as_evidence
from rmqctl.rules.member_clock import MAX_VERSION_MS
from rmqctl.text.durations import short_duration
from rmqctl.text.words import listed

# Clocks commonly differ by a minute, which is too little to misorder manual changes.
_AHEAD_MS = 60_000


@check(
    "SUB006",
    Severity.WARNING,
    "a subscription's version is in the future",
    meaning="A version is the time in ms by the clock of the member that subscribed. A broker keeps the newest "
    "version: until that time, no other member can change the filter of the topic, whatever it subscribes to.",
    advice="Correct the clock of that member's host and restart the member. Go clients use ns: do not mix them with "
    "other clients in one group. A broker forgets the version when all members of the group have left it.",
)
def version_ahead(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare versions with the brokers' clock, or with this machine's where that is not known."""
    now_ms = facts.at_ms + facts.clocks.reference.high_ms
    wanted, filtered = facts.wanted(), facts.filtered()
    for topic in sorted({*wanted, *filtered}):
        holders = {**wanted.get(topic, {}), **filtered.get(topic, {})}
        ahead = {name: item for name, item in holders.items() if item.version_ms > now_ms + _AHEAD_MS}
        if not ahead:
            continue
        newest_ms = max(item.version_ms for item in ahead.values())
        is_in_ns = newest_ms > MAX_VERSION_MS
        if is_in_ns and len(ahead) == len(holders):
            continue  # all members use ns, as Go clients do: their order is right
        by = (
            "is not in ms, and no other member can set a newer one"
            if is_in_ns
            else f"is {short_duration(newest_ms - now_ms)} ahead of {facts.clocks.reference_name}"
        )
        yield Symptom(
            f"The version of the subscription to {topic} {by} ({listed(ahead)}).",
            subscriptions_as_evidence(topic, ahead),
            show_subscriptions(facts),
            topic,
        )
