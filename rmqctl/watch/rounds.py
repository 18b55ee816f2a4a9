"""Reads round after round, judges, and hands each round to the recording, the metrics and the notifiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.failure import Failure
from rmqctl.net.clock import Clock, pause
from rmqctl.observe.fleet_activity import GroupActivity, GroupKey
from rmqctl.observe.fleet_round import FleetRound
from rmqctl.observe.fleet_sampler import FleetSampler
from rmqctl.rules.health import WORST_FIRST, Health
from rmqctl.text.words import counted

from .health import GroupHealth, HealthWindow
from .incidents import Incidents
from .items import notification
from .metrics import Exporter, MetricsRound
from .recorder import Recorder


class WatchRound(Struct, frozen=True):
    """The verdicts of one round, the last settled ones before it, and what could not be read or recorded.

    `activities` are what the last look at each group has shown. `is_read` is False until a broker has answered once.
    """

    at_ms: int
    groups: Sequence[GroupHealth]
    befores: Mapping[GroupKey, Health]
    failures: Sequence[Failure]
    activities: Mapping[GroupKey, GroupActivity] = {}
    is_read: bool = True

    @property
    def changes(self) -> list[GroupHealth]:
        """The groups whose settled verdict differs from the last one."""
        return [group for group in self.groups if group.is_settled and group.health is not self.befores.get(group.key)]


def round_summary(found: WatchRound) -> str:
    """Return the number of groups by health."""
    if not found.is_read:
        return "Not read yet."
    healths = Counter(group.health for group in found.groups)
    counts = ", ".join(f"{healths[each]} {each}" for each in reversed(WORST_FIRST) if healths[each])
    return f"{counted(len(found.groups), 'group')}: {counts}" if counts else "0 groups"


class Watch:
    """Watches groups until its generator is closed. `send` gets the alerts of each round, as one document.

    `focus` is a group to look at before all others, between any two rounds.
    """

    def __init__(
        self,
        sampler: FleetSampler,
        window: HealthWindow,
        incidents: Incidents,
        *,
        clock: Clock,
        every_s: float,
        recorder: Recorder | None = None,
        exporter: Exporter | None = None,
        send: Callable[[dict[str, Any]], None] = lambda _: None,
        failed_alert_count: Callable[[], int] = lambda: 0,
        waiting_alert_count: Callable[[], int] = lambda: 0,
    ) -> None:
        self._sampler, self._window, self._incidents = sampler, window, incidents
        self._clock, self._every_s = clock, every_s
        self._recorder, self._exporter = recorder, exporter
        self._send, self._failed_alert_count, self._waiting_alert_count = send, failed_alert_count, waiting_alert_count
        self._healths: Mapping[GroupKey, Health] = {}
        self.focus: GroupKey | None = None

    async def rounds(
        self, *, for_s: float | None = None, most: int | None = None, keeps_trying: bool = False
    ) -> AsyncGenerator[WatchRound]:
        """Yield a round every `every_s`; one that takes longer delays the next. Raises what the first round raises.

        Ends after `most` rounds, or when the next one would be later than `for_s` after the start. With `keeps_trying`,
        a first round that no server answered is yielded without groups, and tried again until `for_s` is over; `most`
        does not count it.
        """
        until_s = float("inf") if for_s is None else self._clock.monotonic_s() + for_s
        read_count = 0
        while True:
            began_s = self._clock.monotonic_s()
            try:
                found = await self._round()
            except UnreachableError as error:
                if not keeps_trying or self._clock.monotonic_s() + self._every_s > until_s:
                    raise
                failures = [Failure(None, "all groups", error)]
                found = WatchRound(self._clock.now_ms(), (), {}, failures, is_read=False)
            read_count += found.is_read
            next_s = max(began_s, self._sampler.last_round_s) + self._every_s
            yield found
            if read_count == most or self._clock.monotonic_s() + self._every_s > until_s:
                return
            urgent = {group.key for group in found.groups if group.health is not Health.OK}
            undated = {group.key for group in found.groups if group.time_lag().ms is None}
            for_s = next_s - self._clock.monotonic_s()
            await self._sampler.look_closer(for_s, urgent, undated, focus=self.focus)
            await pause(self._clock, max(0.0, next_s - self._clock.monotonic_s()))

    async def _round(self) -> WatchRound:
        read = await self._sampler.sample()
        failures = list(read.failures)
        if self._recorder is not None:
            try:
                self._recorder.write(read.samples.values())
            except RmqctlError as error:
                failures.append(Failure(None, "recording", error))
        for key, sample in read.samples.items():
            self._window.add(sample, read.activities[key].anchors)
        gone = self._gone(read)
        self._window.drop(gone)
        groups = self._window.judge(read.at_ms, read.unseen, read.unreadable)
        if alerts := [*self._incidents.update(groups), *self._incidents.resolve_gone(gone, read.at_ms)]:
            self._send(notification(alerts))
        if self._exporter is not None:
            self._exporter.publish(
                MetricsRound(
                    read.at_ms, groups, read.activities, len(failures), dict(self._sampler.pace.counts),
                    self._failed_alert_count(), self._waiting_alert_count,
                )
            )  # fmt: skip
        found = WatchRound(read.at_ms, groups, self._healths, failures, read.activities)
        present = {group.key for group in groups}
        self._healths = {
            **{key: health for key, health in self._healths.items() if key in present},
            **{group.key: group.health for group in found.changes},
        }
        return found

    def _gone(self, read: FleetRound) -> list[GroupKey]:
        """Return the groups that no longer have queues: all brokers of their cluster answered, and those they had."""
        known = {**self._incidents.broker_names, **self._window.broker_names}
        return [
            key
            for key, broker_names in known.items()
            if key not in read.samples
            and key.cluster in read.read_brokers
            and broker_names <= read.read_brokers[key.cluster]
        ]
