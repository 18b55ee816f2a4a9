"""The events of a simulation, in order of time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Agenda:
    """Calls handlers at their times; handlers of one time are called in the order in which they were added."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()

    def add(self, at_ms: float, handler: Callable[[], object]) -> None:
        """Have a handler called at a time that is not in the past."""
        heappush(self._events, (at_ms, next(self._numbers), handler))

    def run(self, until_ms: float) -> None:
        """Call all handlers up to a time, which is then the present one."""
        events = self._events
        while events and events[0][0] <= until_ms:
            self.now_ms, _, handler = heappop(events)
            handler()
        self.now_ms = until_ms
