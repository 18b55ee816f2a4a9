"""The job `slo`: the time in which groups were within limits, week by week, and what is left of their error budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import to_builtins
from msgspec.structs import asdict

from rmqctl.errors import UsageError
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind, WrittenTable
from rmqctl.pipeline.session import require_modules
from rmqctl.pipeline.tables.conditions import any_of, between, of_cluster
from rmqctl.pipeline.tables.delta import Table, TableChange
from rmqctl.pipeline.tables.frames import no_snapshot, require_version
from rmqctl.pipeline.tables.hours import day_of
from rmqctl.pipeline.tables.marks import whole_times_ms
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS, SLO_WEEKS, arrow_schema
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time, time_fields
from rmqctl.text.wildcards import require_matching
from rmqctl.text.words import counted

from .limits import LagLimits, parse_limits
from .objective import WEEK_MS, Objective, WeekReport, budget_ms, week_end_ms, week_start_ms

_OBJECTIVE_PERCENT = 99.0
_ROWS = 20
_DAY_MS = 86_400_000


class GroupWeeks(NamedTuple):
    """A group of a cluster, its limits, and its weeks by their start, in order."""

    label: str
    group: str
    limits: LagLimits
    weeks: Mapping[int, WeekReport]


def objective_of(options: JobOptions) -> float:
    """Return the share of time that must be within the limits. Raises UsageError."""
    percent = _OBJECTIVE_PERCENT if options.objective is None else options.objective
    if not 0 < percent < 100:
        raise UsageError("--objective must be above 0 and below 100, for example 99.9.")
    return round(percent / 100, 9)


def span_of(options: JobOptions) -> tuple[int, int]:
    """Return the start of the first week, and the end: by default this week and the one before. Raises UsageError."""
    until_ms = options.time_ms("until", options.now_ms)
    since_ms = options.time_ms("since", week_start_ms(until_ms - 1) - WEEK_MS)
    if since_ms >= until_ms:
        raise UsageError("--since is not before --until.")
    return week_start_ms(since_ms), until_ms


def _check(options: JobOptions) -> None:
    if not (options.max_lags or options.max_time_lags):
        raise UsageError(
            "The job slo needs a limit.", hint="Add --max-lag N or --max-time-lag DURATION, or GROUP=N for some groups."
        )
    parse_limits(options.max_lags, options.max_time_lags)
    objective_of(options)
    span_of(options)
    require_modules({"numpy": "NumPy"}, extra="tables")


def _run(spark: object, options: JobOptions) -> JobResult:  # noqa: ARG001 -- the rows are in this process
    from .reading import count_rows, read_groups
    from .states import group_states
    from .weeks import week_reports

    objective, (since_ms, until_ms) = objective_of(options), span_of(options)
    given = parse_limits(options.max_lags, options.max_time_lags)
    # What waits at the start of the first week was stored before it.
    most_ms = max((limit.most for limit in given.time_lags), default=0)
    where = [between("snapshot_ts", since_ms - max(_DAY_MS, 2 * most_ms), until_ms)]
    if options.cluster_label is not None:
        where.append(of_cluster(options.cluster_label))
    version = require_version(Table(options.tables, OFFSET_SNAPSHOTS))
    counts = count_rows(version, " and ".join(where))
    if not counts:
        raise no_snapshot(options.cluster_label, f"between {iso_time(since_ms)} and {iso_time(until_ms)}")
    names = require_matching("Group", options.groups, counts) if options.groups else tuple(sorted(counts))
    limits = given.of_groups(names)
    first_ms = min((file.first_ms or 0 for file in version.files_between(since_ms, until_ms)), default=0)
    starts_ms = range(max(since_ms, week_start_ms(first_ms)), until_ms, WEEK_MS)
    found = []
    for label, group, rows in read_groups(version, {name: counts[name] for name in limits}, where):
        # A broker that does not answer leaves such rows: it may have queues of the group.
        if rows.is_blank() and rows.at_ms.max() < whole_times_ms(version, [label], until_ms).get(label, 0):
            continue
        states = group_states(rows, limits[group])
        found.append(GroupWeeks(label, group, limits[group], week_reports(states, starts_ms, until_ms, objective)))
    is_all = not options.groups and len(limits) == len(counts)
    written = _write(options, found, objective, since_ms, until_ms, None if is_all else limits)
    items = sorted(map(_row, found), key=_rank)
    labels = sorted({each.label for each in found})
    limit = options.limit or _ROWS
    return JobResult(
        rows=items[:limit],
        row_count=len(items),
        facts=_facts(items, labels, objective, starts_ms, until_ms),
        written=(written,),
        notes=tuple(_notes(items, objective, starts_ms, until_ms, len(items) - limit)),
        shows=frozenset({"clusterLabel"} if len(labels) > 1 else ()),
    )


# The table


def _write(
    options: JobOptions, found: Sequence[GroupWeeks], objective: float, since_ms: int, until_ms: int,
    names: Iterable[str] | None,
) -> WrittenTable:  # fmt: skip
    """Replace the weeks of the groups with these names, None for all."""
    import pyarrow as pa

    values = [
        _table_row(each, start_ms, week_end_ms(start_ms, until_ms), objective)
        for each in found
        for start_ms in each.weeks
    ]
    rows = pa.Table.from_pylist(values, arrow_schema(SLO_WEEKS))
    where = [between("week_start", since_ms, until_ms)]
    if options.cluster_label is not None:
        where.append(of_cluster(options.cluster_label))
    if names is not None:
        where.append(any_of("consumer_group", sorted(names)))
    table = Table(options.tables, SLO_WEEKS)
    table.change(lambda version: TableChange(rows, None if version is None else " and ".join(where)))
    return WrittenTable(table.root, len(values))


def _table_row(of: GroupWeeks, start_ms: int, until_ms: int, objective: float) -> dict[str, Any]:
    return {
        **asdict(of.weeks[start_ms]),
        "cluster_label": of.label,
        "week_start": start_ms * 1000,
        "measured_until": until_ms * 1000,
        "consumer_group": of.group,
        "max_lag": of.limits.max_lag,
        "max_time_lag_ms": of.limits.max_time_lag_ms,
        "objective": objective,
        "dt": day_of(start_ms),
    }


# The report


def _row(of: GroupWeeks) -> dict[str, Any]:
    weeks = [{**time_fields("weekTimestamp", start_ms), **to_builtins(week)} for start_ms, week in of.weeks.items()]
    last, before = weeks[-1], weeks[-2] if len(weeks) > 1 else None
    within, within_before = last["within"], None if before is None else before["within"]
    return {
        "clusterLabel": of.label,
        "group": of.group,
        "maxLag": of.limits.max_lag,
        "maxTimeLagMs": of.limits.max_time_lag_ms,
        "limits": str(of.limits),
        **last,
        "withinBefore": within_before,
        "stateBefore": None if before is None else before["state"],
        "withinChange": None if within is None or within_before is None else within - within_before,
        "weeks": weeks,
    }


def _rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    left = row["budgetLeft"]
    return list(Objective).index(row["state"]), 2.0 if left is None else left, row["group"], row["clusterLabel"]


def _facts(
    rows: Sequence[Mapping[str, Any]], labels: list[str], objective: float, starts_ms: Sequence[int], until_ms: int
) -> dict[str, Any]:
    states = Counter(row["state"] for row in rows)
    return {
        "clusterLabels": labels,
        "objective": objective,
        "budgetMs": round(budget_ms(objective)),
        **time_fields("sinceTimestamp", starts_ms[0]),
        **time_fields("untilTimestamp", until_ms),
        "groupCount": len(rows),
        "groupCounts": {str(state): states[state] for state in Objective},
    }


def _notes(
    rows: Sequence[Mapping[str, Any]], objective: float, starts_ms: Sequence[int], until_ms: int, more_count: int
) -> Iterator[str]:
    budget = short_duration(round(budget_ms(objective)))
    yield (
        f"WEEK is from {iso_time(starts_ms[-1])} to {iso_time(week_end_ms(starts_ms[-1], until_ms))}."
        f" The error budget of {100 * objective:g} % is {budget} a week."
    )
    hidden_ms = [ms for row in rows if (ms := row["unmeasuredMs"] + row["unknownMs"])]
    if hidden_ms:
        yield (
            f"{counted(len(hidden_ms), 'group', 'was')} not measured in all of this week:"
            f" up to {short_duration(max(hidden_ms))} is unknown, and part of no share."
        )
    if more_count > 0:
        yield f"{counted(more_count, 'group')} more; show them with --limit."


JOB = Job(
    name="slo",
    takes=frozenset({
        "tables", "cluster_label", "groups", "since", "until", "max_lags", "max_time_lags", "objective",
    }),
    needs=frozenset({"tables"}),
    needs_spark=False,
    check=_check,
    run=_run,
    fields=(
        ReportField("group", "GROUP"),
        ReportField("clusterLabel", "CLUSTER LABEL", is_wide=True),
        ReportField("limits", "LIMITS"),
        ReportField("state", "OBJECTIVE"),
        ReportField("withinBefore", "WEEK BEFORE", ValueKind.SHARE),
        ReportField("within", "WEEK", ValueKind.SHARE),
        ReportField("withinChange", "CHANGE", ValueKind.SHARE, is_wide=True),
        ReportField("budgetLeft", "BUDGET LEFT", ValueKind.SHARE),
        ReportField("outsideMs", "OUTSIDE", ValueKind.DURATION),
        ReportField("outsideCount", "TIMES", ValueKind.NUMBER, gives_way=True),
        ReportField("outsideMaxMs", "LONGEST", ValueKind.DURATION, gives_way=True),
        ReportField("unknownMs", "UNKNOWN", ValueKind.DURATION, is_wide=True),
        ReportField("unmeasuredMs", "UNMEASURED", ValueKind.DURATION, gives_way=True),
        ReportField("absentMs", "ABSENT", ValueKind.DURATION, is_wide=True),
        ReportField("lagMax", "HIGHEST LAG", ValueKind.NUMBER, is_wide=True),
        ReportField("timeLagMaxMs", "HIGHEST TIME LAG", ValueKind.DURATION, is_wide=True),
    ),
)  # fmt: skip
