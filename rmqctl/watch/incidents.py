"""Decides which verdicts are reported to people, so that a flapping verdict does not page twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.group import GroupState
from rmqctl.observe.fleet_activity import GroupKey
from rmqctl.rules.health import WORST_FIRST, Health, judge_group

from .health import GroupHealth


class AlertKind(StrEnum):
    """What an alert reports about an incident."""

    OPENED = "OPENED"
    WORSENED = "WORSENED"
    REPEATED = "REPEATED"
    RESOLVED = "RESOLVED"


class Alert(Struct, frozen=True):
    """One report to people. `worst` is the worst health of the incident so far; `is_gone`: the group has no queues."""

    kind: AlertKind
    group: GroupHealth
    worst: Health
    since_ms: int
    is_gone: bool = False

    @property
    def incident(self) -> str:
        """The incident's name: the same in all of its alerts."""
        return f"{self.group.key.cluster}/{self.group.key.group}/{self.since_ms}"


class OpenIncident(Struct):
    """An incident as it is stored for a restart. `broker_names` had queues of the group when it was last judged."""

    key: GroupKey
    since_ms: int
    worst: Health
    notified_ms: int
    broker_names: frozenset[str]
    fine_since_ms: int | None = None


class Incidents:
    """Open incidents by group. One opens when a group's health is at `notify_at` or worse.

    It is resolved when the health has been better for `quiet_ms` without interruption, or when the group is gone. Until
    then it is reported again only when it becomes worse than it ever was, and `repeat_ms` after its last report unless
    the group is better just then. An UNKNOWN that is not reported neither opens nor resolves an incident.
    """

    def __init__(
        self, notify_at: Health, quiet_ms: int, *, repeat_ms: int | None = None, stored: Iterable[OpenIncident] = ()
    ) -> None:
        self._reported = frozenset(WORST_FIRST[: WORST_FIRST.index(notify_at) + 1])
        self._quiet_ms, self._repeat_ms = quiet_ms, repeat_ms
        self._open = {incident.key: incident for incident in stored}
        self._last: dict[GroupKey, GroupHealth] = {}

    def update(self, groups: Sequence[GroupHealth]) -> list[Alert]:
        """Return what the verdicts of one round add to the incidents. The incident of a missing group stays open."""
        return [alert for group in groups if (alert := self._update(group)) is not None]

    def resolve_gone(self, keys: Iterable[GroupKey], at_ms: int) -> list[Alert]:
        """Return the end of the incidents of groups that no longer have queues, with what was last known of them."""
        alerts = []
        for key in keys:
            if (incident := self._open.pop(key, None)) is not None:
                group = replace(self._last.get(key) or _unknown_group(key), at_ms=at_ms)
                alerts.append(Alert(AlertKind.RESOLVED, group, incident.worst, incident.since_ms, is_gone=True))
            self._last.pop(key, None)
        return alerts

    def _update(self, group: GroupHealth) -> Alert | None:
        incident, health = self._open.get(group.key), group.health
        is_reported = health in self._reported
        if is_reported and not group.is_settled:
            return None
        if incident is None:
            if not is_reported:
                return None
            incident = OpenIncident(group.key, group.at_ms, health, group.at_ms, group.broker_names)
            self._open[group.key], self._last[group.key] = incident, group
            return Alert(AlertKind.OPENED, group, health, group.at_ms)
        self._last[group.key], incident.broker_names = group, group.broker_names
        if is_reported or health is Health.UNKNOWN:
            incident.fine_since_ms = None
            return self._report_again(incident, group)
        if incident.fine_since_ms is None:
            incident.fine_since_ms = group.at_ms
        if group.at_ms - incident.fine_since_ms < self._quiet_ms:
            return None
        del self._open[group.key], self._last[group.key]
        return Alert(AlertKind.RESOLVED, group, incident.worst, incident.since_ms)

    def _report_again(self, incident: OpenIncident, group: GroupHealth) -> Alert | None:
        """Return the alert for an incident that became worse or is due again; the group is not better."""
        if group.health in self._reported and WORST_FIRST.index(group.health) < WORST_FIRST.index(incident.worst):
            kind, incident.worst = AlertKind.WORSENED, group.health
        elif self._repeat_ms and group.is_settled and group.at_ms - incident.notified_ms >= self._repeat_ms:
            kind = AlertKind.REPEATED
        else:
            return None
        incident.notified_ms = group.at_ms
        return Alert(kind, group, incident.worst, incident.since_ms)

    @property
    def open(self) -> Sequence[OpenIncident]:
        """The open incidents, to be stored for a restart."""
        return tuple(self._open.values())

    @property
    def broker_names(self) -> Mapping[GroupKey, frozenset[str]]:
        """The brokers that had queues of each group with an open incident."""
        return {key: incident.broker_names for key, incident in self._open.items()}


def _unknown_group(key: GroupKey) -> GroupHealth:
    """Return what is known of a group that was not read since the start: nothing."""
    return GroupHealth(key, 0, GroupState.UNKNOWN, judge_group({}), (), ())
