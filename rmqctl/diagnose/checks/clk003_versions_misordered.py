"""CLK003: clocks that differ order subscriptions wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check
from rmqctl.diagnose.rules.parts import show_subscriptions, subscriptions_as_evidence
from rmqctl.model.group import Subscription
from rmqctl.rules.clock_skew import ClockBounds
from rmqctl.rules.member_clock import MAX_VERSION_MS
from rmqctl.text.durations import short_duration
from rmqctl.text.words import listed

# A difference that matters to a user who changes a filter manually.
_LEAST_MS = 10_000


@check(
    "CLK003",
    Severity.INFO,
    "clocks order subscriptions wrongly",
    meaning="A broker keeps the filter with the newest version, and a version is a time of the member's own clock. A "
    "member whose clock is behind another one can subscribe later and still have an older version. Its filter has no "
    "effect until its clock passes the other member's version.",
    advice="Synchronise the members' clocks, then restart the member whose version is too new (last, if all restart). "
    "A broker forgets the version when all members of the group have left it.",
    needs=(Need.MEMBERS, Need.CLOCKS),
)
def versions_misordered(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare each topic's newest version with the times of the other subscriptions and with the clocks now."""
    clocks = facts.clocks.members
    for topic, by_client in facts.wanted().items():
        known = {name: item for name, item in by_client.items() if item.version_ms <= MAX_VERSION_MS}
        if len(known) < 2 or len(known) < len(by_client):
            continue  # versions in ns are SUB006's
        newest = max(known, key=lambda name: known[name].version_ms)
        overruled = [
            name
            for name, item in known.items()
            if item.filter_key != known[newest].filter_key
            and _is_later(item, clocks.get(name), known[newest], clocks.get(newest))
        ]
        if overruled:
            yield Symptom(
                f"{newest} subscribed to {topic} before {listed(overruled)} but has the newest version, "
                "by its own clock: its filter applies.",
                subscriptions_as_evidence(topic, {name: known[name] for name in (newest, *overruled)}),
                show_subscriptions(facts),
                topic,
                key=f"{topic} is",
                severity=Severity.WARNING,
            )
        waits = _waits(facts.at_ms, known, newest, clocks)
        for name in overruled:
            waits.pop(name, None)
        if waits:
            differ = any(known[name].filter_key != known[newest].filter_key for name in waits)
            yield Symptom(
                f"For the next {short_duration(max(waits.values()))}, no filter of {listed(waits)} for {topic} "
                f"replaces that of {newest}.",
                subscriptions_as_evidence(topic, {name: known[name] for name in (newest, *waits)}),
                show_subscriptions(facts),
                topic,
                key=f"{topic} would",
                severity=Severity.WARNING if differ else Severity.INFO,
            )


def _is_later(item: Subscription, own: ClockBounds | None, newest: Subscription, other: ClockBounds | None) -> bool:
    """Return whether a version was certainly set after a newer one, by this machine's clock."""
    if own is None or own.high_ms is None or other is None or other.low_ms is None:
        return False
    return item.version_ms - own.high_ms > newest.version_ms - other.low_ms


def _waits(
    now_ms: int, known: Mapping[str, Subscription], newest: str, clocks: Mapping[str, ClockBounds]
) -> dict[str, int]:
    """Return for how long at least the clock of each member stays behind the newest version, in ms."""
    lefts = {
        name: known[newest].version_ms - now_ms - high_ms
        for name in known
        if name != newest and (high_ms := clocks.get(name, ClockBounds()).high_ms) is not None
    }
    return {name: left_ms for name, left_ms in lefts.items() if left_ms > _LEAST_MS}
