"""How far another clock is from ours, with bounds: what one question and its answer can prove."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class ClockSample(Struct, frozen=True):
    """One question: our clock when it was sent and when the answer came, and the other clock in between; in ms."""

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
        """Whether the clocks are further apart than the limit; None when the bounds do not tell."""
        if self.low_ms > limit_ms or self.high_ms < -limit_ms:
            return True
        return False if -limit_ms <= self.low_ms and self.high_ms <= limit_ms else None


def compute_skew(samples: Sequence[ClockSample]) -> SkewBounds:
    """Return what all samples prove together; at least one is needed.

    The other clock was read between sending and receiving, so each sample bounds the skew from both sides. Where they
    contradict each other a clock was set meanwhile: then the last sample stands alone.
    """
    each = [_bounds(sample) for sample in samples]
    low_ms, high_ms = max(one.low_ms for one in each), min(one.high_ms for one in each)
    return SkewBounds(low_ms, high_ms) if low_ms <= high_ms else each[-1]


def _bounds(sample: ClockSample) -> SkewBounds:
    # Each reading is a whole number of ms, rounded down: the true times may be up to one ms later.
    return SkewBounds(sample.remote_at_ms - sample.received_at_ms - 1, sample.remote_at_ms - sample.sent_at_ms + 1)
