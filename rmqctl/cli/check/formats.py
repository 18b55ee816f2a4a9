"""The formats that only rmqctl check has: text for people, and those of Nagios, Prometheus and JUnit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rmqctl.cli.output.text import printable
from rmqctl.gate.limits import WORST_FIRST, GateStatus, LimitKind
from rmqctl.text.times import iso_time
from rmqctl.text.words import counted, listed

from .display import OWN_FORMATS
from .results import CheckRow, GateResult

# More lines would hide the problems above them.
_MOST_ADVICE = 8


def text(result: GateResult) -> str:
    """Return one line if everything is OK, else a line for each group that is not, and what to do next."""
    lines = [f"{status} {words}" for status, words in problems(result)] or [f"OK {_all_ok(result)}"]
    bad = [row.result for row in result.rows if row.result.status is not GateStatus.OK]
    advice = dict.fromkeys(f"  {line}" for each in bad for line in (each.hint, each.next_command) if line)
    lines += [*advice][:_MOST_ADVICE]
    if bad and not result.is_single:
        lines.append(f"{_counts(result)}.")
    return "".join(f"{printable(line)}\n" for line in lines)


def problems(result: GateResult) -> list[tuple[GateStatus, str]]:
    """Return a status and a sentence for each group that is not OK; groups with the same problem share one."""
    alike: dict[tuple[GateStatus, str], list[str]] = {}
    with_all = result.is_single
    for group in result.groups:
        if group.status is not GateStatus.OK:
            key = group.status, group.sentence(with_all=with_all)
            alike.setdefault(key, []).append(group.label)
    return [(status, f"{listed(labels)}: {sentence}") for (status, sentence), labels in alike.items()]


def nagios(result: GateResult) -> str:
    """Return the output of a Nagios plugin: the status, performance data behind a bar, and a line for each problem."""
    is_single = result.is_single
    first, *more = [words for _, words in problems(result)] or [_all_ok(result)]
    if more and not is_single:
        first = f"{_counts(result)}: {first}"
    # The bar begins the performance data.
    lines = [printable(line).replace("|", "!") for line in (f"{result.status} - {first}", *more)]
    data = " ".join(_performance(row, is_alone=is_single) for row in result.rows if row.unit)
    return "\n".join([lines[0] + (f" | {data}" if data else ""), *lines[1:]]) + "\n"


def _performance(row: CheckRow, *, is_alone: bool) -> str:
    """Return 'label'=value[unit];warning;critical;minimum; U is an unknown value."""
    found = row.result
    label = found.kind.value if is_alone else f"{row.label} {found.kind}"
    label = printable(label).replace("'", "").replace("=", "_")
    quoted = f"'{label}'" if " " in label else label
    value = "U" if found.value.value is None else str(found.value.value)
    is_minimum = found.kind in (LimitKind.MEMBERS, LimitKind.STABLE)
    limits = [
        "" if not isinstance(limit, int) else f"{limit}:" if is_minimum else str(limit)
        for limit in (found.warning, found.critical)
    ]
    unit = "ms" if row.unit == "ms" and value != "U" else ""
    return f"{quoted}={value}{unit};{limits[0]};{limits[1]};0"


_METRICS = {
    LimitKind.LAG: ("rmqctl_check_lag_messages", "Unread messages of the group."),
    LimitKind.TIME_LAG: ("rmqctl_check_time_lag_milliseconds", "Age of the oldest unread message of the group."),
    LimitKind.MEMBERS: ("rmqctl_check_members", "Members of the group."),
    LimitKind.DEAD_LETTERS: ("rmqctl_check_new_dead_letters", "Dead letters of the group within the window."),
    LimitKind.SEVERITY: ("rmqctl_check_findings", "Findings of the group that a limit concerns."),
    LimitKind.STABLE: ("rmqctl_check_stable_milliseconds", "How long the group has been stable."),
}


def prometheus(result: GateResult) -> str:
    """Return metrics in Prometheus's text format; an unknown value has no sample."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

    labels = ("consumer_group", "topic", "context")
    statuses = GaugeMetricFamily("rmqctl_check_status", f"Status of the group: {_CODES}.", labels=labels)
    limits = GaugeMetricFamily("rmqctl_check_limit_status", f"Status of a limit: {_CODES}.", labels=(*labels, "limit"))
    read_at = GaugeMetricFamily("rmqctl_check_timestamp_seconds", "When the groups were read.")
    read_at.add_metric((), result.at_ms / 1000)
    values = {kind: GaugeMetricFamily(*names, labels=labels) for kind, names in _METRICS.items()}
    for group in result.groups:
        statuses.add_metric(_label_values(group.rows[0]), group.status.exit_code)
    for row in result.rows:
        limits.add_metric((*_label_values(row), row.result.kind.value), row.result.status.exit_code)
        if row.result.value.value is not None:
            values[row.result.kind].add_metric(_label_values(row), row.result.value.value)

    class Results(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            yield from (family for family in (statuses, limits, *values.values(), read_at) if family.samples)

    registry = CollectorRegistry()
    registry.register(Results())
    return generate_latest(registry).decode()


_CODES = ", ".join(f"{status.exit_code} {status}" for status in GateStatus)


def _label_values(row: CheckRow) -> tuple[str, ...]:
    return row.group or "", ",".join(row.topics), row.context or ""


def junit(result: GateResult) -> str:
    """Return a JUnit report: a suite per group, a case per limit; what is unknown is an error.

    JUnit has no warnings, and CI servers stop at a failure: the case of a warning passes and says so.
    """
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    seconds = f"{result.waited_ms / 1000:.3f}"
    top = Element("testsuites", {"name": "rmqctl check", "time": seconds, **_counted(result.rows)})
    for group in result.groups:
        at = str(iso_time(result.at_ms))[:19]
        suite = SubElement(top, "testsuite", {"name": printable(group.label), "timestamp": at, **_counted(group.rows)})
        for row in group.rows:
            found = row.result
            case = SubElement(suite, "testcase", classname=printable(group.label), name=found.kind.value, time="0")
            said = printable(found.sentence)
            whole = "\n".join(printable(line) for line in (said, found.hint, found.next_command) if line)
            if found.status is GateStatus.OK:
                SubElement(case, "system-out").text = said
            elif found.status is GateStatus.WARNING:
                SubElement(case, "system-out").text = f"{found.status}: {whole}"
            else:
                tag = "error" if found.status is GateStatus.UNKNOWN else "failure"
                SubElement(case, tag, type=found.status.value, message=said).text = whole
    indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(top, encoding="unicode")}\n'


def _counted(rows: Sequence[CheckRow]) -> dict[str, str]:
    counts = Counter(row.result.status for row in rows)
    failure_count, error_count = counts[GateStatus.CRITICAL], counts[GateStatus.UNKNOWN]
    return {"tests": str(len(rows)), "failures": str(failure_count), "errors": str(error_count)}


def _all_ok(result: GateResult) -> str:
    if result.is_single:
        return f"{result.groups[0].label}: {result.groups[0].sentence(with_all=True)}"
    return f"{counted(len(result.groups), 'group')}, {counted(len(result.rows), 'limit')}"


def _counts(result: GateResult) -> str:
    counts = Counter(group.status for group in result.groups if group.rows[0].group is not None)
    return f"{counted(counts.total(), 'group')}: " + ", ".join(
        f"{counts[status]} {status}" for status in WORST_FIRST if counts[status]
    )


FORMATS: Mapping[str, Callable[[GateResult], str]] = dict(
    zip(OWN_FORMATS, (text, nagios, prometheus, junit), strict=True)
)
