"""Notice in the event loop that it did not run for a while: the process was stopped, suspended, or starved.

Other members may have consumed its queues meanwhile, and answers from before the stop lie unread in its connections.
"""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.net.clock import Clock, Timer

# A member can join, consume and leave within this time; a busy machine delays a timer for less.
_MOST_S = 2.0
_BEAT_S = 0.5


class StandStill:
    """Calls `on_found` in the event loop, with the seconds without a beat, when that was too long.

    `on_beat` is called at each beat. Any thread may call is_over().
    """

    def __init__(self, clock: Clock, on_found: Callable[[float], object], on_beat: Callable[[], object]) -> None:
        self._clock = clock
        self._on_found = on_found
        self._on_beat = on_beat
        self._beat_s = clock.monotonic_s()
        self._timer: Timer | None = None

    def start(self) -> None:
        """Beat until close()."""
        self._beat_s = self._clock.monotonic_s()
        self._beat()

    def _beat(self) -> None:
        self.look()
        self._on_beat()
        self._timer = self._clock.call_later(_BEAT_S, self._beat)

    def close(self) -> None:
        """Stop beating."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Find out now: what is read from a connection, or stored, must not be before the next beat."""
        before_s, self._beat_s = self._beat_s, self._clock.monotonic_s()
        if self._beat_s - before_s > _MOST_S:
            self._on_found(self._beat_s - before_s)

    def is_over(self, now_s: float) -> bool:
        """Return whether the event loop has not run for too long, at a monotonic time."""
        return now_s - self._beat_s > _MOST_S
