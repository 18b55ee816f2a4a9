"""How fast a consumer pulls and consumes, and which limits apply (ConsumerStatsManager, StatsItem).

Java's client samples its totals every 10 s, and every 10 minutes for the hour, so its hourly counts of failures are up
to 10 minutes late. Here, counts are current at each request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from rmqctl.model.group import TopicConsumeStatus
from rmqctl.net.clock import Clock
from rmqctl.rules.flow_control import FlowControl

# The counters of each topic, by their index in a list.
_PULLS, _PULLED, _PULL_MS, _BATCHES, _CONSUME_MS, _OK, _FAILED = range(7)
_NOTHING = (0.0,) * 7

_MINUTE_STEP_S, _MINUTE_STEPS = 10.0, 6
_HOUR_STEP_S, _HOUR_STEPS = 60.0, 60
# A rate covers at least this time: Java's first sample assumes that counting started 10 s earlier.
_SHORTEST_S = 10.0

_Totals = Mapping[str, Sequence[float]]


class _Window:
    """Totals at the steps of a time window: `step_count` steps back, and up to one step more."""

    def __init__(self, start_s: float, step_s: float, step_count: int) -> None:
        self.next_s = start_s + step_s
        self._step_s = step_s
        self._samples: deque[tuple[float, _Totals]] = deque([(start_s, {})], maxlen=step_count + 1)

    def step(self, now_s: float, totals: _Totals) -> None:
        """Note totals for the steps that are over; nothing was added to them since."""
        missed = int((now_s - self.next_s) // self._step_s) + 1
        sample = {topic: tuple(counts) for topic, counts in totals.items()}
        # Older samples than the window would be discarded immediately.
        for number in range(max(0, missed - (self._samples.maxlen or missed)), missed):
            self._samples.append((self.next_s + number * self._step_s, sample))
        self.next_s += missed * self._step_s

    def since(self, now_s: float, topic: str, counts: Sequence[float]) -> tuple[float, list[float]]:
        """Return the length of the window (s), and its counts."""
        start_s, sample = self._samples[0]
        before = sample.get(topic, _NOTHING)
        return max(_SHORTEST_S, now_s - start_s), [now - then for now, then in zip(counts, before, strict=True)]


class Counters:
    """Counts by topic, in the event loop; one call counts many messages.

    `holds` counts how often each limit of flow control prevented the pull of a queue, since the start.
    """

    def __init__(self, clock: Clock) -> None:
        self.holds: dict[FlowControl, int] = {}
        self._now_s = clock.monotonic_s
        start_s = self._now_s()
        self._minute = _Window(start_s, _MINUTE_STEP_S, _MINUTE_STEPS)
        self._hour = _Window(start_s, _HOUR_STEP_S, _HOUR_STEPS)
        self._topics: dict[str, list[float]] = {}

    def pulled(self, topic: str, count: int, spent_ms: float) -> None:
        """Count a pull that found messages, and the time (ms) until its answer, including the wait at the broker."""
        counts = self._counts(topic)
        counts[_PULLS] += 1
        counts[_PULLED] += count
        counts[_PULL_MS] += spent_ms

    def consumed(self, topic: str, ok_count: int, failed_count: int, spent_ms: float, batch_count: int) -> None:
        """Count messages that a listener finished, with the number and total time (ms) of their batches."""
        counts = self._counts(topic)
        counts[_BATCHES] += batch_count
        counts[_CONSUME_MS] += spent_ms
        counts[_OK] += ok_count
        counts[_FAILED] += failed_count

    def held(self, hold: FlowControl) -> None:
        """Count a limit that applied."""
        self.holds[hold] = self.holds.get(hold, 0) + 1

    def status(self, topic: str) -> TopicConsumeStatus:
        """Return a topic's rates over the last minute, and failures over the last hour.

        The time of a batch is the hour's mean if none finished in the last minute, as in Java.
        """
        counts, now_s = self._counts(topic), self._now_s()
        minute_s, minute = self._minute.since(now_s, topic, counts)
        _, hour = self._hour.since(now_s, topic, counts)
        return TopicConsumeStatus(
            pull_rt_ms=_mean(minute[_PULL_MS], minute[_PULLS]),
            pull_tps=minute[_PULLED] / minute_s,
            consume_rt_ms=_mean(*((minute if minute[_BATCHES] else hour)[at] for at in (_CONSUME_MS, _BATCHES))),
            consume_ok_tps=minute[_OK] / minute_s,
            consume_failed_tps=minute[_FAILED] / minute_s,
            consume_failed_count=round(hour[_FAILED]),
        )

    def _counts(self, topic: str) -> list[float]:
        """Return a topic's counters, after noting the totals of steps that are over."""
        now_s = self._now_s()
        # An hour's step is never due before a minute's.
        if now_s >= self._minute.next_s:
            self._minute.step(now_s, self._topics)
            if now_s >= self._hour.next_s:
                self._hour.step(now_s, self._topics)
        counts = self._topics.get(topic)
        if counts is None:
            counts = self._topics[topic] = list(_NOTHING)
        return counts


def _mean(total: float, count: float) -> float:
    return total / count if count else 0.0
