"""Decides which verdicts are reported to people, so that a flapping verdict does not page twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from rmqctl.observe.fleet_activity import GroupKey
from rmqctl.rules.health import WORST_FIRST, Health

from .health import GroupHealth


class AlertKind(StrEnum):
    """What an alert reports about an incident."""

    OPENED = "OPENED"
    WORSENED = "WORSENED"
    RESOLVED = "RESOLVED"


class Alert(Struct, frozen=True):
    """One report to people. `worst` is the worst health of the incident so far."""

    kind: AlertKind
    group: GroupHealth
    worst: Health
    since_ms: int

    @property
    def incident(self) -> str:
        """The incident's name: the same in all of its alerts."""
        return f"{self.group.key.cluster}/{self.group.key.group}/{self.since_ms}"


class _Open(Struct):
    since_ms: int
    worst: Health
    fine_since_ms: int | None = None


class Incidents:
    """Open incidents by group. One opens when a group's health is at `notify_at` or worse.

    It is resolved when the health has been better for `quiet_ms` without interruption. Until then it is reported again
    only when it becomes worse than it ever was. An UNKNOWN that is not reported neither opens nor resolves an incident.
    """

    def __init__(self, notify_at: Health, quiet_ms: int) -> None:
        self._reported = frozenset(WORST_FIRST[: WORST_FIRST.index(notify_at) + 1])
        self._quiet_ms = quiet_ms
        self._open: dict[GroupKey, _Open] = {}

    def update(self, groups: Sequence[GroupHealth]) -> list[Alert]:
        """Return what the verdicts of one round add to the incidents."""
        found = [alert for group in groups if (alert := self._update(group)) is not None]
        present = {group.key for group in groups}
        self._open = {key: each for key, each in self._open.items() if key in present}
        return found

    def _update(self, group: GroupHealth) -> Alert | None:
        incident, health = self._open.get(group.key), group.health
        if health in self._reported:
            if health is Health.UNKNOWN and not group.is_settled:
                return None
            if incident is None:
                self._open[group.key] = _Open(group.at_ms, health)
                return Alert(AlertKind.OPENED, group, health, group.at_ms)
            incident.fine_since_ms = None
            if WORST_FIRST.index(health) < WORST_FIRST.index(incident.worst):
                incident.worst = health
                return Alert(AlertKind.WORSENED, group, health, incident.since_ms)
            return None
        if incident is None:
            return None
        if health is Health.UNKNOWN:
            incident.fine_since_ms = None
            return None
        if incident.fine_since_ms is None:
            incident.fine_since_ms = group.at_ms
        if group.at_ms - incident.fine_since_ms < self._quiet_ms:
            return None
        del self._open[group.key]
        return Alert(AlertKind.RESOLVED, group, incident.worst, incident.since_ms)

    @property
    def open(self) -> Mapping[GroupKey, Health]:
        """The worst health of each open incident."""
        return {key: each.worst for key, each in self._open.items()}
