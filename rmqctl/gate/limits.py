"""The limits of a group, and whether what was read keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from rmqctl.diagnose.finding import SEVERITIES, Finding, Severity, command
from rmqctl.rules.totals import Total
from rmqctl.text.durations import exact_duration, short_duration
from rmqctl.text.words import agreeing, counted, listed


class GateStatus(StrEnum):
    """How a limit is kept, as a Nagios plugin reports it: OK 0, WARNING 1, CRITICAL 2, UNKNOWN 3."""

    OK = "OK"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    UNKNOWN = "UNKNOWN"

    @property
    def exit_code(self) -> int:
        """The exit code of a Nagios plugin."""
        return tuple(GateStatus).index(self)


# What is unknown may be critical, so it comes before what is only a warning.
WORST_FIRST = (GateStatus.CRITICAL, GateStatus.UNKNOWN, GateStatus.WARNING, GateStatus.OK)


def worst_status(statuses: Iterable[GateStatus]) -> GateStatus:
    """Return the worst status, OK without any."""
    return min(statuses, key=WORST_FIRST.index, default=GateStatus.OK)


class LimitKind(StrEnum):
    """What a result is about. READING: a group, or a part of its cluster, could not be read."""

    LAG = "lag"
    TIME_LAG = "timeLag"
    MEMBERS = "members"
    DEAD_LETTERS = "deadLetters"
    SEVERITY = "severity"
    STABLE = "stable"
    READING = "reading"


class Threshold(Struct, frozen=True):
    """The last values that are still accepted; None: no such limit."""

    warning: int | None = None
    critical: int | None = None


class SeverityThreshold(Struct, frozen=True):
    """The lowest severities that are not accepted; None: no such limit."""

    warning: Severity | None = None
    critical: Severity | None = None

    @property
    def lowest(self) -> Severity:
        """The lower of the two severities."""
        return max((each for each in (self.warning, self.critical) if each is not None), key=SEVERITIES.index)


class GroupLimits(Struct, frozen=True, kw_only=True):
    """The limits of a group; None: not checked. Lag in messages; dead letters are those of the last `window_ms`.

    `stable_for_ms`: how long all limits must be kept, without a change of the members and of the queues they hold.
    """

    lag: Threshold | None = None
    time_lag_ms: Threshold | None = None
    members: Threshold | None = None
    dead_letters: Threshold | None = None
    severity: SeverityThreshold | None = None
    window_ms: int = 600_000
    stable_for_ms: int | None = None

    @property
    def needs_progress(self) -> bool:
        """Whether the group's progress has to be read."""
        return any(each is not None for each in (self.lag, self.time_lag_ms, self.members, self.stable_for_ms))


class LimitResult(Struct, frozen=True):
    """Whether one limit is kept. `value` is a number of messages, ms, members or findings.

    `warning` and `critical` are the limits, as numbers or severities. `next_command` shows more; `hint` is an
    error's.
    """

    kind: LimitKind
    status: GateStatus
    sentence: str
    value: Total
    warning: int | str | None = None
    critical: int | str | None = None
    next_command: str | None = None
    hint: str | None = None


def judge_lag(group: str, lag: Total, threshold: Threshold, more: str = "") -> LimitResult:
    """Judge the number of unread messages; `more` is, in words, what the lag does not count."""
    status = _judge_maximum(lag, threshold)
    words = f"lag {_amount(lag, str)}{_limit_words('max', str, status, threshold)}{more}"
    shown = command("offset", "show", group, "--only-with-lag")
    return LimitResult(LimitKind.LAG, status, words, lag, threshold.warning, threshold.critical, shown)


def judge_time_lag(group: str, time_lag_ms: Total, threshold: Threshold) -> LimitResult:
    """Judge the age of the oldest unread message, in ms."""
    status = _judge_maximum(time_lag_ms, threshold)
    limit = _limit_words("max", exact_duration, status, threshold)
    words = f"time lag {_amount(time_lag_ms, short_duration)}{limit}"
    shown = command("offset", "show", group, "--sort", "-timeLagMs")
    return LimitResult(LimitKind.TIME_LAG, status, words, time_lag_ms, threshold.warning, threshold.critical, shown)


def judge_members(group: str, members: Total, threshold: Threshold) -> LimitResult:
    """Judge the number of members, which must not be below the limit."""
    status = _judge_minimum(members, threshold)
    words = f"{_counted(members, 'member')}{_limit_words('min', str, status, threshold)}"
    shown = command("group", "members", group)
    return LimitResult(LimitKind.MEMBERS, status, words, members, threshold.warning, threshold.critical, shown)


def judge_dead_letters(group: str, letters: Total, window_ms: int, threshold: Threshold) -> LimitResult:
    """Judge the number of dead letters that were stored within the window."""
    status = _judge_maximum(letters, threshold)
    window = exact_duration(window_ms)
    words = f"{_counted(letters, 'dead letter')} in {window}{_limit_words('max', str, status, threshold)}"
    shown = command("dlq", "show", group, "--since", window)
    return LimitResult(LimitKind.DEAD_LETTERS, status, words, letters, threshold.warning, threshold.critical, shown)


def judge_findings(
    group: str, findings: Sequence[Finding], open_count: int, threshold: SeverityThreshold
) -> LimitResult:
    """Judge the findings of a diagnosis, of which `open_count` checks were inconclusive.

    One that may be the effect of a rebalance is a warning until it is confirmed.
    """
    bad = [each for each in findings if each.severity.reaches(threshold.lowest)]
    limit = threshold.critical
    is_critical = limit is not None and any(each.is_confirmed and each.severity.reaches(limit) for each in bad)
    status = GateStatus.CRITICAL if is_critical else GateStatus.WARNING if bad else GateStatus.OK
    least = threshold.lowest.lower()
    if bad:
        codes = dict.fromkeys(f"{each.code}{'' if each.is_confirmed else ' (seen once)'}" for each in bad)
        words = f"{counted(len(bad), 'finding')} of severity {least} or worse: {listed(codes, shown=5)}"
    else:
        words = f"no finding of severity {least} or worse"
    if open_count:
        words += f" ({counted(open_count, 'check')} {agreeing(open_count, 'was')} inconclusive)"
    shown = command("diagnose", group, "--severity", least)
    return LimitResult(
        LimitKind.SEVERITY, status, words, Total(len(bad), len(bad), None), threshold.warning, threshold.critical, shown
    )


def _judge_maximum(value: Total, threshold: Threshold) -> GateStatus:
    """Judge a value by its known part: what is unknown can only add to it."""
    if threshold.critical is not None and value.at_least > threshold.critical:
        return GateStatus.CRITICAL
    is_above = threshold.warning is not None and value.at_least > threshold.warning
    if value.value is None and not (is_above and threshold.critical is None):
        return GateStatus.UNKNOWN
    return GateStatus.WARNING if is_above else GateStatus.OK


def _judge_minimum(value: Total, threshold: Threshold) -> GateStatus:
    """Judge a value by its known part: if that is enough, the unknown part does not matter."""
    is_low = threshold.critical is not None and value.at_least < threshold.critical
    is_below = threshold.warning is not None and value.at_least < threshold.warning
    if not is_low and not is_below:
        return GateStatus.OK
    if value.value is None:
        return GateStatus.UNKNOWN
    return GateStatus.CRITICAL if is_low else GateStatus.WARNING


def _counted(value: Total, noun: str) -> str:
    if value.value is not None:
        return counted(value.value, noun)
    return _amount(value, lambda count: counted(count, noun)) if value.at_least else f"{noun}s {_unknown(value)}"


def _amount(value: Total, show: Callable[[int], str]) -> str:
    if value.value is not None:
        return show(value.value)
    return f"at least {show(value.at_least)}: {value.reason}" if value.at_least else _unknown(value)


def _unknown(value: Total) -> str:
    return f"unknown: {value.reason}"


def _limit_words(word: str, show: Callable[[int], str], status: GateStatus, threshold: Threshold) -> str:
    """Return the limit that decides, in brackets."""
    is_warning = threshold.critical is None or (status is GateStatus.WARNING and threshold.warning is not None)
    limit = threshold.warning if is_warning else threshold.critical
    return "" if limit is None else f" ({'warn' if is_warning else word} {show(limit)})"
