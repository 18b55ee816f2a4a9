"""How far another clock is from ours, with bounds: what requests and their answers can prove."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct


class ClockSample(Struct, frozen=True):
    """One request, in ms: our clock when it was sent and when the answer arrived, and the other clock in between."""

    sent_at_ms: int
    received_at_ms: int
    remote_at_ms: int


class SkewBounds(Struct, frozen=True):
    """The other clock minus ours is at least `low_ms` and at most `high_ms`."""

    low_ms: int
    high_ms: int

    @property
    def middle_ms(self) -> int:
        """The best guess."""
        return (self.low_ms + self.high_ms) // 2

    @property
    def error_ms(self) -> int:
        """How far the best guess can be off."""
        return self.high_ms - self.middle_ms

    def exceeds(self, limit_ms: int) -> bool | None:
        """Tell whether the clocks are further apart than the limit; None when the bounds do not decide it."""
        if self.low_ms > limit_ms or self.high_ms < -limit_ms:
            return True
        return False if -limit_ms <= self.low_ms and self.high_ms <= limit_ms else None


class ClockBounds(Struct, frozen=True):
    """Another clock minus ours; None means an unknown bound."""

    low_ms: int | None = None
    high_ms: int | None = None

    @property
    def width_ms(self) -> int | None:
        """How far the bounds are apart; None while one is unknown."""
        return None if self.low_ms is None or self.high_ms is None else self.high_ms - self.low_ms

    def minus(self, other: SkewBounds) -> ClockBounds:
        """Return how far the clock is from a third one, whose bounds against ours are `other`."""
        return ClockBounds(
            None if self.low_ms is None else self.low_ms - other.high_ms,
            None if self.high_ms is None else self.high_ms - other.low_ms,
        )

    def off_ms(self) -> int:
        """Return the least skew: above 0 when the clock is ahead, below 0 when it is behind, 0 when both may agree."""
        if self.low_ms is not None and self.low_ms > 0:
            return self.low_ms
        return self.high_ms if self.high_ms is not None and self.high_ms < 0 else 0

    def is_between(self, limits: SkewBounds) -> bool:
        """Tell whether the clock is certainly within limits, ends included."""
        return (
            self.low_ms is not None
            and self.high_ms is not None
            and limits.low_ms <= self.low_ms
            and self.high_ms <= limits.high_ms
        )


def middle_clock(skews: Iterable[SkewBounds]) -> SkewBounds | None:
    """Return the clock in the middle, the slower of two; None without any."""
    ordered = sorted(skews, key=lambda skew: skew.middle_ms)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def compute_skew(samples: Sequence[ClockSample]) -> SkewBounds:
    """Return what all samples prove together; at least one is needed.

    The other clock was read between sending and receiving, so each sample bounds the skew from both sides. Samples that
    contradict each other mean that a clock was set meanwhile: then only the last one counts.
    """
    each = [_bounds(sample) for sample in samples]
    low_ms, high_ms = max(one.low_ms for one in each), min(one.high_ms for one in each)
    return SkewBounds(low_ms, high_ms) if low_ms <= high_ms else each[-1]


def _bounds(sample: ClockSample) -> SkewBounds:
    # Each reading is a whole number of ms, rounded down: the true times may be up to one ms later.
    return SkewBounds(sample.remote_at_ms - sample.received_at_ms - 1, sample.remote_at_ms - sample.sent_at_ms + 1)
