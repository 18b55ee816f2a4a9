"""What several readings show together: how long a group has been stable, and which findings last."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.diagnose.finding import command
from rmqctl.rules.totals import Total
from rmqctl.text.durations import exact_duration, short_duration

from .limits import GateStatus, LimitKind, LimitResult, judge_findings
from .readings import GroupAssignment, GroupReport

# Clients ask for routes every 30 s, rebalance every 20 s, and send heartbeats every 30 s: a finding that lasts longer
# is not the effect of a rebalance. rmqctl diagnose waits as long before it reads a group again.
_CONFIRMED_S = 55.0


class _Past(Struct, frozen=True):
    """A group after a reading that ended at `ended_s`; times are monotonic.

    `stable_since_s`: the end of the first reading since which nothing changed and every limit was kept; None if one is
    not. `broken` says why the group was not stable before that, "" if it always was. `seen_since_s` is by finding.
    """

    ended_s: float
    assignment: GroupAssignment | None = None
    stable_since_s: float | None = None
    broken: str = ""
    seen_since_s: dict[tuple[str, str], float] = {}


class History:
    """Judges the readings of one cluster, each with those before it.

    After more than `longest_gap_s` without a reading, nothing counts as stable: what happened meanwhile was not seen.
    """

    def __init__(self, longest_gap_s: float) -> None:
        self._longest_gap_s = longest_gap_s
        self._past: dict[tuple[str, tuple[str, ...]], _Past] = {}

    def judge(
        self, reports: Sequence[GroupReport], began_s: float, ended_s: float, *, is_whole: bool = True
    ) -> list[GroupReport]:
        """Return the reports with all limits judged; the reading took from `began_s` to `ended_s`, both monotonic.

        `is_whole`: whether every part of the cluster was read.
        """
        return [self._judge(report, began_s, ended_s, is_whole=is_whole) for report in reports]

    def _judge(self, report: GroupReport, began_s: float, ended_s: float, *, is_whole: bool) -> GroupReport:
        key = report.group, report.target.topics
        past = self._past.get(key)
        seen_since_s = _seen_since(report, past, ended_s)
        report = replace(report, results=(*report.results, *_severity(report, seen_since_s, began_s)))
        stable_since_s, broken = self._stability(report, past, began_s, ended_s, is_whole=is_whole)
        self._past[key] = _Past(ended_s, report.assignment, stable_since_s, broken, seen_since_s)
        wanted_ms = report.target.limits.stable_for_ms
        if wanted_ms is None or report.error is not None:
            return report
        stable_ms = None if stable_since_s is None else max(0, round((began_s - stable_since_s) * 1000))
        result = _judge_stable(report.group, stable_ms, wanted_ms, broken)
        return replace(report, results=(*report.results, result), broken=broken)

    def _stability(
        self, report: GroupReport, past: _Past | None, began_s: float, ended_s: float, *, is_whole: bool
    ) -> tuple[float | None, str]:
        """Return since when the group is stable, None if it is not, and why it was not before."""
        if not is_whole:
            return None, "a part could not be read"
        if report.error is not None:
            return None, "the group could not be read"
        if report.status is not GateStatus.OK:
            return None, "a limit was not met"
        if past is None:
            return ended_s, ""
        gap_s = began_s - past.ended_s
        if gap_s > self._longest_gap_s:
            return ended_s, f"the group was not read for {short_duration(round(gap_s * 1000))}"
        if past.assignment is not None and report.assignment is not None and past.assignment != report.assignment:
            is_joined = past.assignment.client_ids != report.assignment.client_ids
            return ended_s, "members joined or left" if is_joined else "queues changed their owner"
        return past.stable_since_s if past.stable_since_s is not None else ended_s, past.broken


def _seen_since(report: GroupReport, past: _Past | None, ended_s: float) -> dict[tuple[str, str], float]:
    before = {} if past is None else past.seen_since_s
    keys = (finding.identity for finding in report.findings or ())
    return {key: before.get(key, ended_s) for key in keys}


def _severity(report: GroupReport, seen_since_s: dict[tuple[str, str], float], began_s: float) -> list[LimitResult]:
    threshold = report.target.limits.severity
    if report.findings is None or threshold is None:
        return []
    findings = [
        replace(finding, is_confirmed=finding.is_confirmed or began_s - seen_since_s[finding.identity] >= _CONFIRMED_S)
        for finding in report.findings
    ]
    return [judge_findings(report.group, findings, report.open_count, threshold)]


def _judge_stable(group: str, stable_ms: int | None, wanted_ms: int, broken: str) -> LimitResult:
    is_kept = stable_ms is not None and stable_ms >= wanted_ms
    if stable_ms is None:
        words = f"not stable: {broken}"
    else:
        words = f"stable for {short_duration(stable_ms)} (min {exact_duration(wanted_ms)})"
        words += f", since {broken}" if broken and not is_kept else ""
    return LimitResult(
        LimitKind.STABLE,
        GateStatus.OK if is_kept else GateStatus.CRITICAL,
        words,
        Total(stable_ms or 0, stable_ms or 0, None),
        critical=wanted_ms,
        next_command=command("group", "members", group),
    )
