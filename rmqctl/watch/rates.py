"""The rates of a queue and of a group, from the same samples as the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from rmqctl.rules.health import Observation, of_one_log

# Members commit every 5 s: over less time, a rate would depend on whether a commit falls into it.
_RATE_MS = 60_000


class MessageRates(Struct, frozen=True):
    """Messages per second that arrived, and that were consumed; None when unknown.

    `consume` is below 0 when the offset went back, and counts skipped messages as consumed.
    """

    produce_msgs_per_s: float | None = None
    consume_msgs_per_s: float | None = None


def compute_rates(observations: Sequence[Observation]) -> MessageRates:
    """Return the rates of a queue over the last minute, up to its last sample; `observations` are in order.

    A rate is unknown when the last sample does not have its offset, or no other one has.
    """
    if not observations:
        return MessageRates()
    since_ms = observations[-1].at_ms - _RATE_MS
    recent = [each for each in observations if each.at_ms >= since_ms]
    looks = of_one_log(recent)
    return MessageRates(_rate([(each.at_ms, each.max_offset) for each in looks]), _consume_rate(looks))


def sum_rates(rates: Iterable[MessageRates]) -> MessageRates:
    """Return the rates of several queues together, unknown when one of them is."""
    every = list(rates)
    return MessageRates(
        _sum([each.produce_msgs_per_s for each in every]), _sum([each.consume_msgs_per_s for each in every])
    )


def consume_history(queues: Iterable[Sequence[Observation]], until_ms: int) -> list[float | None]:
    """Return the messages per second that a group consumed between each two rounds, oldest first; None is unknown.

    Samples after `until_ms` do not count. The samples of all queues in one round have the same time. A queue counts
    from its first sample on.
    """
    steps: dict[int, list[float | None]] = {}
    for observations in queues:
        for step in pairwise(observations):
            if step[1].at_ms <= until_ms:
                steps.setdefault(step[1].at_ms, []).append(_consume_rate(of_one_log(step)))
    return [_sum(steps[at_ms]) for at_ms in sorted(steps)]


def _consume_rate(looks: Sequence[Observation]) -> float | None:
    if len(looks) > 1 and all(each.is_none_stored for each in looks):
        # Nothing was ever committed. A first commit does not show how much was consumed before it.
        return 0.0
    return _rate([(each.at_ms, each.consumer_offset) for each in looks])


def _rate(offsets: Sequence[tuple[int, int | None]]) -> float | None:
    known = [(at_ms, offset) for at_ms, offset in offsets if offset is not None]
    if len(known) < 2 or offsets[-1][1] is None:
        return None
    (first_ms, first), (last_ms, last) = known[0], known[-1]
    return (last - first) * 1000 / (last_ms - first_ms) if last_ms > first_ms else None


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) and known else None
