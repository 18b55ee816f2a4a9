"""The totals of stored and delivered messages at the start of the day (BrokerStats)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from .stats import Stats

_DAY_MS = 86_400_000
PUT, GET = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"


class Totals(Struct, frozen=True):
    """Messages stored and delivered since the broker started."""

    put_count: int = 0
    get_count: int = 0


class DailyTotals:
    """The totals at the start of today and of yesterday. Days are UTC, by the broker's clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.today = Totals()
        self.yesterday = Totals()
        self._now_ms = now_ms
        self._day = now_ms() // _DAY_MS

    def note(self, stats: Stats, cluster: str) -> Totals:
        """Return the current totals; on a new day, also keep them as the totals of its start."""
        now = Totals(stats.total(PUT, cluster), stats.total(GET, cluster))
        day = self._now_ms() // _DAY_MS
        if day != self._day:
            self.yesterday = self.today if day == self._day + 1 else now
            self.today = now
            self._day = day
        return now
