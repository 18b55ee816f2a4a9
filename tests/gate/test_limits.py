"""Whether limits are met, also by values that are only partly known."""

from __future__ import annotations

import pytest

from rmqctl.diagnose.finding import Finding, Severity, Symptom
from rmqctl.gate.limits import (
    GateStatus,
    SeverityThreshold,
    Threshold,
    judge_dead_letters,
    judge_findings,
    judge_lag,
    judge_members,
    judge_time_lag,
    worst_status,
)
from rmqctl.rules.totals import Total

OK, WARNING, CRITICAL, UNKNOWN = GateStatus.OK, GateStatus.WARNING, GateStatus.CRITICAL, GateStatus.UNKNOWN


def known(value: int) -> Total:
    return Total(value, value, None)


def partly(at_least: int) -> Total:
    return Total(None, at_least, "BROKER_UNREACHABLE")


@pytest.mark.parametrize(
    ("value", "warning", "critical", "status"),
    [
        (known(10), None, 10, OK),
        (known(11), None, 10, CRITICAL),
        (known(5), 5, 10, OK),
        (known(6), 5, 10, WARNING),
        (known(11), 5, 10, CRITICAL),
        (known(6), 5, None, WARNING),
        (known(0), None, 0, OK),
        # The known part decides, if it can.
        (partly(11), None, 10, CRITICAL),
        (partly(6), 5, 10, UNKNOWN),
        (partly(6), 5, None, WARNING),
        (partly(3), 5, None, UNKNOWN),
        (partly(0), None, 10, UNKNOWN),
    ],
)
def test_the_most_that_is_accepted(value: Total, warning: int | None, critical: int | None, status: GateStatus) -> None:
    threshold = Threshold(warning, critical)
    assert judge_lag("G", value, threshold).status is status
    assert judge_time_lag("G", value, threshold).status is status
    assert judge_dead_letters("G", value, 60_000, threshold).status is status


@pytest.mark.parametrize(
    ("value", "warning", "critical", "status"),
    [
        (known(3), None, 3, OK),
        (known(2), None, 3, CRITICAL),
        (known(3), 4, 3, WARNING),
        (known(0), None, 0, OK),
        # Enough members are enough, whatever the brokers that did not answer know.
        (partly(3), None, 3, OK),
        (partly(2), None, 3, UNKNOWN),
        (partly(3), 4, 3, UNKNOWN),
    ],
)
def test_the_least_that_is_accepted(
    value: Total, warning: int | None, critical: int | None, status: GateStatus
) -> None:
    assert judge_members("G", value, Threshold(warning, critical)).status is status


_ERROR = Finding("SUB001", Severity.ERROR, "G", Symptom("Bad."))
_WARNING = Finding("OFF005", Severity.WARNING, "G", Symptom("Bad."))
_ONCE = Finding("ALO002", Severity.ERROR, "G", Symptom("Bad."), is_confirmed=False)


@pytest.mark.parametrize(
    ("findings", "threshold", "status"),
    [
        ((), SeverityThreshold(critical=Severity.ERROR), OK),
        ((_WARNING,), SeverityThreshold(critical=Severity.ERROR), OK),
        ((_WARNING,), SeverityThreshold(Severity.WARNING, Severity.ERROR), WARNING),
        ((_WARNING,), SeverityThreshold(critical=Severity.WARNING), CRITICAL),
        ((_WARNING, _ERROR), SeverityThreshold(Severity.WARNING, Severity.ERROR), CRITICAL),
        ((_ERROR,), SeverityThreshold(warning=Severity.INFO), WARNING),
        # It may pass by itself, so it is not critical, but the gate does not open either.
        ((_ONCE,), SeverityThreshold(critical=Severity.ERROR), WARNING),
        ((_ONCE, _ERROR), SeverityThreshold(critical=Severity.ERROR), CRITICAL),
    ],
)
def test_findings(findings: tuple[Finding, ...], threshold: SeverityThreshold, status: GateStatus) -> None:
    result = judge_findings("G", findings, 0, threshold)
    assert result.status is status
    assert result.value.value == sum(f"{each.code}" in result.sentence for each in findings)


def test_unknown_is_worse_than_a_warning() -> None:
    assert worst_status([OK, WARNING, UNKNOWN]) is UNKNOWN
    assert worst_status([WARNING, UNKNOWN, CRITICAL, OK]) is CRITICAL
    assert worst_status([OK, WARNING]) is WARNING
    assert [status.exit_code for status in GateStatus] == [0, 1, 2, 3]


def test_a_sentence_has_the_value_its_reason_and_the_limit_that_decides() -> None:
    threshold = Threshold(60_000, 300_000)
    assert judge_time_lag("G", known(30_000), threshold).sentence == "time lag 30s (max 5m)"
    assert judge_time_lag("G", known(90_000), threshold).sentence == "time lag 1m30s (warn 1m)"
    assert (
        judge_members("G", partly(2), Threshold(None, 3)).sentence == "at least 2 members: BROKER_UNREACHABLE (min 3)"
    )
    assert judge_members("G", partly(0), Threshold(None, 1)).sentence == "members unknown: BROKER_UNREACHABLE (min 1)"
    assert judge_dead_letters("G", known(1), 600_000, Threshold(None, 0)).sentence == "1 dead letter in 10m (max 0)"
