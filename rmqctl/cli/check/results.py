"""The results of rmqctl check, by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from rmqctl.diagnose.finding import command
from rmqctl.errors import NotAuthorisedError
from rmqctl.gate.limits import GateStatus, LimitKind, LimitResult, worst_status
from rmqctl.gate.readings import GroupReport
from rmqctl.model.failure import Failure
from rmqctl.rules.totals import Total


class CheckRow(Struct, frozen=True):
    """A result. `group` is None for what is unknown about the whole cluster; `context` for that of the command line."""

    context: str | None
    group: str | None
    topics: tuple[str, ...]
    result: LimitResult

    @property
    def label(self) -> str:
        """The group, with its topics and its context if there are any."""
        topics = f" ({','.join(self.topics)})" if self.topics else ""
        context = f"@{self.context}" if self.context else ""
        return f"{self.group or 'cluster'}{topics}{context}"

    @property
    def unit(self) -> str | None:
        """The unit of the value, None for a result without one."""
        return _UNITS.get(self.result.kind)


_UNITS = {
    LimitKind.LAG: "messages",
    LimitKind.TIME_LAG: "ms",
    LimitKind.MEMBERS: "members",
    LimitKind.DEAD_LETTERS: "messages",
    LimitKind.SEVERITY: "findings",
    LimitKind.STABLE: "ms",
}


class GroupRows(Struct, frozen=True):
    """The results of one group, those that are not OK first."""

    label: str
    rows: tuple[CheckRow, ...]

    @property
    def status(self) -> GateStatus:
        """The worst status."""
        return worst_status(row.result.status for row in self.rows)

    def sentence(self, *, with_all: bool) -> str:
        """Return the results in words: all, or those that are not OK."""
        shown = [row.result for row in self.rows if with_all or row.result.status is not GateStatus.OK]
        return "; ".join(result.sentence for result in shown)


class ClusterReport(Struct, frozen=True):
    """One reading of the groups of a cluster, and the parts that could not be read."""

    context: str | None
    groups: tuple[GroupReport, ...]
    failures: tuple[Failure, ...]

    def rows(self) -> Iterator[CheckRow]:
        """Yield each result; the last one is about the cluster, if a part of it could not be read."""
        for group in self.groups:
            for result in group.results:
                yield CheckRow(self.context, group.group, group.target.topics, result)
        if self.failures:
            yield CheckRow(self.context, None, (), _unread(self.failures))


class GateResult(Struct, frozen=True):
    """The last reading of all clusters, when it ended, and how long the command took up to then."""

    clusters: tuple[ClusterReport, ...]
    at_ms: int
    waited_ms: int
    reading_count: int

    @property
    def rows(self) -> list[CheckRow]:
        """All results."""
        return [row for cluster in self.clusters for row in cluster.rows()]

    @property
    def groups(self) -> list[GroupRows]:
        """All results by group; those about a cluster are a group of their own."""
        return [
            GroupRows(label, tuple(sorted(each, key=lambda row: row.result.status is GateStatus.OK)))
            for label, each in groupby(self.rows, key=lambda row: row.label)
        ]

    @property
    def is_single(self) -> bool:
        """Whether only one group was checked."""
        return sum(len(cluster.groups) for cluster in self.clusters) == 1

    @property
    def status(self) -> GateStatus:
        """The worst status."""
        return worst_status(row.result.status for row in self.rows)

    @property
    def is_final(self) -> bool:
        """Whether another reading cannot help: all is OK, or a permission is missing."""
        errors = [group.error for cluster in self.clusters for group in cluster.groups]
        return self.status is GateStatus.OK or any(isinstance(error, NotAuthorisedError) for error in errors)

    @property
    def is_only_short(self) -> bool:
        """Whether nothing but time is missing: all limits are met, and no group has changed since the first reading."""
        bad = [row for row in self.rows if row.result.status is not GateStatus.OK]
        is_broken = any(group.broken for cluster in self.clusters for group in cluster.groups)
        return not is_broken and all(row.result.kind is LimitKind.STABLE for row in bad)


def _unread(failures: Sequence[Failure]) -> LimitResult:
    first = failures[0]
    where = f"{first.broker_name}: " if first.broker_name else ""
    more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
    words = f"not read: {where}{first.what}{more}: {first.error.sentence.removesuffix('.')}"
    return LimitResult(
        LimitKind.READING, GateStatus.UNKNOWN, words, Total(None, 0, first.error.name), next_command=command("doctor")
    )
