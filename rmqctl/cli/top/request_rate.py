"""How many requests per second were sent lately."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

_LATELY_S = 10.0


class RequestRate:
    """Derives the rate from the numbers of requests so far, by broker."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, Counter[str]]] = deque()

    def update(self, now_s: float, counts: Mapping[str, int]) -> float:
        """Return the requests per second to the broker that got the most of them in the last 10 s."""
        self._counts.append((now_s, Counter(counts)))
        while len(self._counts) > 2 and self._counts[1][0] <= now_s - _LATELY_S:
            self._counts.popleft()
        then_s, before = self._counts[0]
        most = max((count - before[name] for name, count in counts.items()), default=0)
        return most / (now_s - then_s) if now_s > then_s else 0.0
