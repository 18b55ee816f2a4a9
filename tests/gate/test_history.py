"""How long a group has been stable, and when a finding that may pass is confirmed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from rmqctl.diagnose.finding import Finding, Severity, Symptom
from rmqctl.errors import UnreachableError
from rmqctl.gate.history import History
from rmqctl.gate.limits import GateStatus, GroupLimits, LimitKind, LimitResult, SeverityThreshold
from rmqctl.gate.readings import CheckTarget, GroupAssignment, GroupReport
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.totals import Total

_TARGET = CheckTarget("G", (), GroupLimits(stable_for_ms=10_000))
_QUEUES = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(2)]


def _report(*holders: str, members: str = "xy", status: GateStatus = GateStatus.OK) -> GroupReport:
    held: Mapping[MessageQueue, tuple[str, ...]] = dict(zip(_QUEUES, map(tuple, holders or ("x", "y")), strict=True))
    limit = LimitResult(LimitKind.LAG, status, "lag 0", Total(0, 0, None))
    return GroupReport("G", _TARGET, (limit,), GroupAssignment(frozenset(members), held))


FINE = _report()
_UNREAD = replace(FINE, results=(), error=UnreachableError("b:1", "gone"))


@pytest.mark.parametrize(
    ("reports", "stable_s", "broken"),
    [
        ([FINE], 0, ""),
        ([FINE] * 3, 9, ""),
        ([FINE] * 4, 14, ""),
        ([FINE, _report("y", "x"), FINE], 0, "queues changed their owner"),
        ([FINE, _report("xy", "y"), FINE, FINE], 4, "queues changed their owner"),
        ([FINE, _report(members="xyz"), _report(members="xyz")], 4, "members joined or left"),
        # A member that is restarted has another client id.
        ([FINE, FINE, _report("z", "y", members="zy")], 0, "members joined or left"),
        ([FINE, _report(status=GateStatus.CRITICAL), FINE, FINE, FINE], 9, "a limit was not met"),
        ([FINE, FINE, _report(status=GateStatus.WARNING)], 0, "a limit was not met"),
        ([FINE, _UNREAD, FINE], 0, "the group could not be read"),
    ],
)
def test_stable_is_what_was_seen_without_a_change(reports: list[GroupReport], stable_s: int, broken: str) -> None:
    """A reading takes 1 s, and there is one every 5 s. From the end of one to the start of the next are 4 s."""
    history = History(longest_gap_s=20)
    for number, report in enumerate(reports):
        (judged,) = history.judge([report], 5.0 * number, 5.0 * number + 1)
    (stable,) = [result for result in judged.results if result.kind is LimitKind.STABLE]
    assert (stable.value.value, judged.broken) == (stable_s * 1000, broken)
    assert (stable.status is GateStatus.OK) == (stable_s >= 10)


def test_nothing_is_stable_while_it_is_not_read() -> None:
    history = History(longest_gap_s=20)
    history.judge([FINE], 0, 1)
    (judged,) = history.judge([FINE], 61, 62)
    assert judged.broken == "the group was not read for 1m00s"
    (judged,) = history.judge([FINE], 66, 67, is_whole=False)
    assert judged.broken == "a part could not be read"
    assert judged.status is GateStatus.CRITICAL


def test_a_finding_that_may_pass_is_critical_when_it_lasts() -> None:
    target = CheckTarget("G", (), GroupLimits(severity=SeverityThreshold(critical=Severity.ERROR)))
    found = GroupReport(
        "G", target, findings=(Finding("ALO002", Severity.ERROR, "G", Symptom("Bad."), is_confirmed=False),)
    )
    gone = replace(found, findings=())
    history = History(longest_gap_s=20)

    def statuses(*reports: GroupReport, from_s: float) -> list[GateStatus]:
        return [
            history.judge([report], from_s + 30 * number, from_s + 30 * number)[0].status
            for number, report in enumerate(reports)
        ]

    warning, critical, ok = GateStatus.WARNING, GateStatus.CRITICAL, GateStatus.OK
    assert statuses(found, found, found, from_s=0) == [warning, warning, critical]
    assert statuses(gone, found, found, gone, from_s=100) == [ok, warning, warning, ok]
