"""The trend of a queue's lag: straight lines through its samples, by least squares."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from .observation import Observation, in_order, of_one_log


class Trend(Struct, frozen=True):
    """The rates of a queue, in messages per second; None when fewer than two moments are known.

    `slope` is the slope of the lag (`Observation.behind`), so it is `produce` minus `consume`. `consume` is below 0
    when the offset went back, and counts skipped messages as consumed. `eta_s` is the time until no messages are unread
    at this rate; 0 when none are, None while the lag does not fall.
    """

    slope_msgs_per_s: float | None
    produce_msgs_per_s: float | None
    consume_msgs_per_s: float | None
    eta_s: float | None


def compute_trend(observations: Collection[Observation]) -> Trend:
    """Fit the lines through all samples that have both offsets; their order and spacing do not matter.

    All sums are integers, so that epoch ms lose no digits; in SQL, use regr_slope over at_ms minus the first at_ms.
    """
    looks = [
        (look.at_ms, look.consumer_offset, look.max_offset)
        for look in of_one_log(in_order(observations))
        if look.consumer_offset is not None and look.max_offset is not None and look.consumer_offset <= look.max_offset
    ]
    if not looks:
        return Trend(None, None, None, None)
    first_ms, _, _ = looks[0]
    _, last_offset, last_max = looks[-1]
    behind = last_max - last_offset
    times_ms = [at_ms - first_ms for at_ms, _, _ in looks]
    # The slopes are fractions of one denominator, which is 0 for a single moment.
    denominator = len(looks) * sum(at_ms * at_ms for at_ms in times_ms) - sum(times_ms) ** 2
    if denominator == 0:
        return Trend(None, None, None, 0.0 if behind == 0 else None)
    produced = _numerator(times_ms, [max_offset for _, _, max_offset in looks])
    consumed = _numerator(times_ms, [offset for _, offset, _ in looks])
    slope = produced - consumed
    return Trend(
        slope * 1000 / denominator,
        produced * 1000 / denominator,
        consumed * 1000 / denominator,
        _eta_s(behind, slope, denominator),
    )


def _numerator(times_ms: Sequence[int], values: Sequence[int]) -> int:
    products = sum(at_ms * value for at_ms, value in zip(times_ms, values, strict=True))
    return len(values) * products - sum(times_ms) * sum(values)


def _eta_s(behind: int, slope: int, denominator: int) -> float | None:
    if behind == 0:
        return 0.0
    return behind * denominator / (-slope * 1000) if slope < 0 else None
