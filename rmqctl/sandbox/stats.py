"""Counters as RocketMQ's StatsItem: sums, and rates over the last minute, hour and day.

A rate is the difference of two samples, as in RocketMQ: events since the last sample are not included yet. Minutes are
sampled every 10 s, hours every 10 minutes, days every hour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

SAMPLE_S = 10.0
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0

# How often each span is sampled.
_INTERVALS_S = {MINUTE_S: SAMPLE_S, HOUR_S: 600.0, DAY_S: 3600.0}
# Timers may fire a little early by this clock.
_SLACK_S = 1.0

_Samples = deque[tuple[float, int, int]]


class Rate(Struct, frozen=True):
    """The figures of a span: `sum` of values, `tps` per second, `average` per call (StatsSnapshot)."""

    sum: int = 0
    tps: float = 0.0
    average: float = 0.0

    def to_wire(self) -> dict[str, Any]:
        """Return it as JSON data (BrokerStatsItem)."""
        return {"avgpt": self.average, "sum": self.sum, "tps": self.tps}


class _Counter:
    __slots__ = ("call_count", "spans", "sum")

    def __init__(self) -> None:
        self.sum = 0
        self.call_count = 0
        # By span: (time in s, sum, calls), the oldest as long ago as the span.
        self.spans: dict[float, _Samples] = {
            span_s: deque(maxlen=round(span_s / interval_s) + 1) for span_s, interval_s in _INTERVALS_S.items()
        }

    def sample(self, span_s: float, now_s: float) -> None:
        samples = self.spans[span_s]
        if not samples:
            samples.append((now_s - _INTERVALS_S[span_s], 0, 0))
        samples.append((now_s, self.sum, self.call_count))


class Stats:
    """Counters by (name, key), for example ("TOPIC_PUT_NUMS", topic) or ("GROUP_GET_NUMS", "topic@group").

    Call `sample` every 10 s.
    """

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._counters: dict[tuple[str, str], _Counter] = {}
        self._monotonic_s = monotonic_s
        self._sampled_s = dict.fromkeys(_INTERVALS_S, monotonic_s())

    def add(self, name: str, key: str, value: int = 1, call_count: int = 1) -> None:
        """Count a value. Sends and pulls call it for every message, so it must stay cheap."""
        counter = self._counters.get((name, key))
        if counter is None:
            counter = self._counters[name, key] = _Counter()
        counter.sum += value
        counter.call_count += call_count

    def sample(self) -> None:
        """Take the samples that are due."""
        now_s = self._monotonic_s()
        for span_s, interval_s in _INTERVALS_S.items():
            if now_s - self._sampled_s[span_s] > interval_s - _SLACK_S:
                self._sampled_s[span_s] = now_s
                for counter in self._counters.values():
                    counter.sample(span_s, now_s)

    def total(self, name: str, key: str) -> int:
        """Return the sum since the start."""
        counter = self._counters.get((name, key))
        return 0 if counter is None else counter.sum

    def has(self, name: str, key: str) -> bool:
        """Return whether anything was ever counted."""
        return (name, key) in self._counters

    def rate(self, name: str, key: str, span_s: float = MINUTE_S) -> Rate:
        """Return the figures of the last minute, hour or day, up to the last sample."""
        counter = self._counters.get((name, key))
        if counter is None or not counter.spans[span_s]:
            return Rate()
        (begin_s, begin_sum, begin_calls), (end_s, end_sum, end_calls) = (
            counter.spans[span_s][0],
            counter.spans[span_s][-1],
        )
        total, calls = end_sum - begin_sum, end_calls - begin_calls
        return Rate(total, total / (end_s - begin_s), total / calls if calls else 0.0)

    def last_tps(self, name: str, key: str, span_s: float = MINUTE_S) -> float:
        """Return the rate per second between the last two samples of a span: 10 s, 10 minutes or an hour apart."""
        counter = self._counters.get((name, key))
        if counter is None or len(counter.spans[span_s]) < 2:
            return 0.0
        (begin_s, begin_sum, _), (end_s, end_sum, _) = list(counter.spans[span_s])[-2:]
        return (end_sum - begin_sum) / (end_s - begin_s)

    def forget(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Forget the counters of a topic or a group that was deleted (onTopicDeleted, onGroupDeleted)."""
        for name, key in list(self._counters):
            if name.startswith("BROKER_"):
                continue  # their key is the cluster
            # topic, topic@group or queueId@topic@group
            parts = key.split("@")
            its_topic, its_group = parts[max(0, len(parts) - 2)], parts[-1] if len(parts) > 1 else None
            if (topic is not None and topic == its_topic) or (group is not None and group == its_group):
                del self._counters[name, key]
