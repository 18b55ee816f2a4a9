"""The health of groups over a window of samples; the samples are live or read from a recording."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.group import GroupState
from rmqctl.model.progress import QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.observe.fleet_activity import GroupKey
from rmqctl.observe.recording import RecordedSample
from rmqctl.observe.sampled_progress import observation_of, sample_progress
from rmqctl.rules.health import (
    WORST_FIRST,
    Cause,
    GroupVerdict,
    Health,
    HealthSettings,
    Observation,
    QueueVerdict,
    facts_of,
    judge,
    judge_group,
    worst_of,
)
from rmqctl.rules.readable_queues import unreadable_words
from rmqctl.rules.time_lag import Anchor, TimeLag, anchor_of, interpolate_time_lag
from rmqctl.rules.totals import Total, total

from .rates import MessageRates, compute_rates, consume_history, sum_rates


class QueueHealth(Struct, frozen=True):
    """The verdict on a queue. `row` is its progress in the last sample, None when that sample does not have it."""

    mq: MessageQueue
    verdict: QueueVerdict
    row: QueueProgress | None
    time_lag: TimeLag
    rates: MessageRates = MessageRates()


class GroupHealth(Struct, frozen=True):
    """The verdict on a group, its queues, and what their last sample shows. `unseen` may hide further queues.

    `unreadable` counts the unread messages in queues that no consumer can read; no lag counts them.
    """

    key: GroupKey
    at_ms: int
    state: GroupState
    verdict: GroupVerdict
    queues: tuple[QueueHealth, ...]
    client_ids: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    unreadable: Mapping[MessageQueue, int] = {}

    @property
    def health(self) -> Health:
        """The health of the worst queue; at best UNKNOWN when queues may be hidden."""
        return worst_of((self.verdict.health, Health.UNKNOWN)) if self.unseen else self.verdict.health

    @property
    def member_count(self) -> int | None:
        """The number of members, None when it is unknown."""
        return None if self.state is GroupState.UNKNOWN else len(self.client_ids)

    @property
    def broker_names(self) -> frozenset[str]:
        """The brokers that have queues of the group."""
        return frozenset(each.mq.broker_name for each in self.queues)

    @property
    def worst(self) -> QueueHealth | None:
        """The queue that decided: of the worst ones, the one with the most unread messages."""

        def rank(queue: QueueHealth) -> tuple[bool, int]:
            return queue.verdict.cause not in _EARLY, (queue.row.lag if queue.row is not None else None) or 0

        return max((each for each in self.queues if each.mq in self.verdict.worst), key=rank, default=None)

    @property
    def is_settled(self) -> bool:
        """Whether the verdict is final for this window, and does not only lack samples."""
        return self.health is not Health.UNKNOWN or any(
            each.verdict.health is Health.UNKNOWN and each.verdict.cause not in _EARLY for each in self.queues
        )

    @property
    def cause(self) -> str:
        """The rule that decided: a Cause, or BROKER_NEVER_SEEN."""
        worst = self.worst
        if self.unseen and self.verdict.health in (Health.OK, Health.UNKNOWN):
            return "BROKER_NEVER_SEEN"
        return Cause.NO_SAMPLES if worst is None else worst.verdict.cause

    @property
    def reason(self) -> str:
        """The reason in words."""
        worst = self.worst
        if self.cause == "BROKER_NEVER_SEEN":
            return f"{', '.join(self.unseen)} did not answer and may have more queues"
        reason = "it has no queues" if worst is None else worst.verdict.reason
        return reason + unreadable_words(self.unreadable, "; ")

    def lag(self, topic: str | None = None) -> Total:
        """Return the unread messages of a topic or of all."""
        parts = [(each.row.lag, each.row.reasons.get("lag", "")) for each in self._rows(topic) if each.row]
        return total(parts, hidden="BROKER_UNREACHABLE" if self.unseen else None, nothing="NO_SAMPLES")

    def time_lag(self, topic: str | None = None) -> TimeLag:
        """Return the age of the oldest unread message of a topic or of all."""
        ages = [each.time_lag for each in self._rows(topic)]
        at_least_ms = max((each.ms or each.at_least_ms for each in ages), default=0)
        known = [each.ms for each in ages if each.ms is not None]
        is_known = len(known) == len(ages) and ages and not self.unseen
        return TimeLag(at_least_ms if is_known else None, at_least_ms)

    @property
    def rates(self) -> MessageRates:
        """The rates of all queues together."""
        return MessageRates() if self.unseen else sum_rates(each.rates for each in self._rows(None))

    def topics(self) -> tuple[str, ...]:
        """Return the topics of the last sample."""
        return tuple(dict.fromkeys(each.mq.topic for each in self.queues if each.row is not None))

    def _rows(self, topic: str | None) -> list[QueueHealth]:
        return [each for each in self.queues if each.row is not None and topic in (None, each.mq.topic)]


def worst_first(group: GroupHealth) -> tuple[int, int, GroupKey]:
    """Return what groups are sorted by: the worst first, of these the one with the most unread messages."""
    return WORST_FIRST.index(group.health), -group.lag().at_least, group.key


_EARLY = (Cause.TOO_FEW_SAMPLES, Cause.NO_SAMPLES)


class HealthWindow:
    """Keeps the observations of the last `window_ms` of each queue; the memory does not grow with time."""

    def __init__(self, window_ms: int, settings: HealthSettings) -> None:
        self._window_ms = window_ms
        self._settings = settings
        self._seen: defaultdict[GroupKey, dict[MessageQueue, deque[Observation]]] = defaultdict(dict)
        self._last: dict[GroupKey, tuple[RecordedSample, dict[MessageQueue, QueueProgress]]] = {}
        self._anchors: dict[GroupKey, Mapping[MessageQueue, Anchor]] = {}
        self._known_ages: dict[tuple[GroupKey, MessageQueue], Anchor] = {}

    def add(self, recorded: RecordedSample, anchors: Mapping[MessageQueue, Anchor] | None = None) -> None:
        """Add a sample; samples of a group must be in the order of time. `anchors` are for the age of messages."""
        key = GroupKey(recorded.cluster or "", recorded.sample.group)
        rows = {row.mq: row for row in sample_progress(recorded)}
        self._last[key] = recorded, rows
        self._anchors[key] = anchors or {}
        queues = self._seen[key]
        for mq, row in rows.items():
            queues.setdefault(mq, deque()).append(observation_of(row, recorded.sample.at_ms))

    def judge(
        self,
        now_ms: int,
        unseen: Mapping[str, tuple[str, ...]] | None = None,
        unreadable: Mapping[GroupKey, Mapping[MessageQueue, int]] | None = None,
    ) -> list[GroupHealth]:
        """Judge every group by the samples from `now_ms` back, the newest included; forget older samples.

        `unseen` are the brokers by cluster that may have more queues; `unreadable` is as in GroupHealth.
        """
        self._forget(now_ms - self._window_ms)
        groups = [self._judge(key, now_ms, (unseen or {}).get(key.cluster, ())) for key in sorted(self._seen)]
        return [replace(group, unreadable=(unreadable or {}).get(group.key, {})) for group in groups]

    @property
    def broker_names(self) -> Mapping[GroupKey, frozenset[str]]:
        """The brokers that have queues of each group."""
        return {key: frozenset(mq.broker_name for mq in queues) for key, queues in self._seen.items()}

    def drop(self, keys: Iterable[GroupKey]) -> None:
        """Forget groups that no longer exist."""
        for key in keys:
            for mq in self._seen.pop(key, {}):
                self._known_ages.pop((key, mq), None)
            self._last.pop(key, None)
            self._anchors.pop(key, None)

    def consume_history(self, key: GroupKey, until_ms: int) -> list[float | None]:
        """Return the messages per second that the group consumed from round to round; see rates.consume_history."""
        return consume_history(self._seen.get(key, {}).values(), until_ms)

    def _forget(self, until_ms: int) -> None:
        for key, queues in list(self._seen.items()):
            for mq, observations in list(queues.items()):
                while observations and observations[0].at_ms <= until_ms:
                    observations.popleft()
                if not observations:
                    del queues[mq]
                    self._known_ages.pop((key, mq), None)
            if not queues:
                del self._seen[key], self._last[key], self._anchors[key]

    def _judge(self, key: GroupKey, now_ms: int, unseen: tuple[str, ...]) -> GroupHealth:
        recorded, rows = self._last[key]
        queues = []
        for mq, observations in sorted(self._seen[key].items()):
            verdict = judge(facts_of(observations, until_ms=now_ms), self._settings)
            time_lag = self._time_lag(key, mq, observations)
            queues.append(QueueHealth(mq, verdict, rows.get(mq), time_lag, compute_rates(observations)))
        group = judge_group({each.mq: each.verdict for each in queues})
        sample = recorded.sample
        return GroupHealth(key, sample.at_ms, sample.state, group, tuple(queues), sample.client_ids, unseen)

    def _time_lag(self, key: GroupKey, mq: MessageQueue, observations: Sequence[Observation]) -> TimeLag:
        """Return the age of the oldest unread message, and remember it for when the window has passed it."""
        known = self._known_ages.get((key, mq))
        anchors = [anchor for anchor in (known, self._anchors[key].get(mq)) if anchor is not None]
        time_lag = interpolate_time_lag(observations, anchors)
        if (anchor := anchor_of(observations[-1], time_lag)) is not None:
            self._known_ages[key, mq] = anchor
        return time_lag
