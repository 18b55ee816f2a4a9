"""CLK001: the brokers' clocks differ."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.diagnose.clocks import skew_words
from rmqctl.diagnose.facts import GroupFacts
from rmqctl.diagnose.finding import Need, Severity, Symptom, check, command
from rmqctl.diagnose.rules.parts import clock_evidence
from rmqctl.rules.clock_skew import ClockBounds, middle_clock

_LIMIT_MS = 1_000


@check(
    "CLK001",
    Severity.WARNING,
    "the brokers' clocks differ",
    meaning="Each broker stores, delays and expires messages by its own clock, so the same point in time differs "
    "between brokers. This affects resets and searches by time, CONSUME_FROM_TIMESTAMP, and every message time that "
    "rmqctl shows. It also affects timer messages, whose delivery time is set by the producer's clock.",
    advice="Synchronise the clocks of the brokers' hosts (NTP), in small steps. rmqctl doctor measures them.",
    needs=(Need.BROKERS, Need.CLOCKS),
)
def brokers_differ(facts: GroupFacts) -> Iterator[Symptom]:
    """Compare each broker's clock with the median one; only differences that the round trips prove count."""
    skews = facts.clocks.brokers
    middle = middle_clock(skews.values())
    of = next((name for name, skew in skews.items() if skew is middle), None)
    if middle is None or of is None:
        return
    for name, skew in skews.items():
        bounds = ClockBounds(skew.low_ms, skew.high_ms).minus(middle)
        if name != of and abs(bounds.off_ms()) > _LIMIT_MS:
            yield Symptom(
                f"The clock of {name} is {skew_words(bounds)} that of {of}.",
                (*clock_evidence(name, skew), *clock_evidence(of, middle)),
                command("doctor"),
                key=name,
            )
