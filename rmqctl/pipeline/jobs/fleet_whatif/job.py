"""The job `fleet-whatif`: tries other strategies and sizes on every group of the last snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmqctl.errors import UsageError
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind, WrittenTable
from rmqctl.pipeline.tables.conditions import between
from rmqctl.pipeline.tables.delta import Table, TableChange, TableVersion
from rmqctl.pipeline.tables.frames import collect, no_snapshot, of_label, read_between, require_version
from rmqctl.pipeline.tables.schemas import ALLOC_WHATIF, OFFSET_SNAPSHOTS
from rmqctl.text.times import iso_time, time_fields
from rmqctl.text.wildcards import require_matching
from rmqctl.text.words import counted, listed
from rmqctl.whatif.trials import require_known

from .fleet import CHANGES, STRATEGIES, NamedChange, parse_change, strategy_name
from .frames import (
    LATEST,
    find_worst,
    groups_with_queues,
    latest_snapshots,
    name_groups,
    of_snapshots,
    summarise,
    try_groups,
    with_others,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

# Groups without a snapshot within a day are not tried, unless --since is given.
_DAY_MS = 86_400_000
# More than a snapshot takes.
_SNAPSHOT_MS = 3_600_000
_WORST_COUNT = 3
_SKIPPED_COUNT = 20
# Tasks per shuffle partition: the few large groups are most of the work, and are placed by chance.
_TASKS_EACH = 4


def _check(options: JobOptions) -> None:
    require_known(options.strategies, {})
    names = [strategy_name(word) for word in options.strategies]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"The strategy {name} is named twice.")
    _changes(options)
    _span(options)


def _changes(options: JobOptions) -> list[NamedChange]:
    changes = [parse_change(text) for text in options.changes or CHANGES]
    names = [change.name for change in changes]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"The change {name} is named twice.")
    return changes


def _span(options: JobOptions) -> tuple[int, int | None]:
    """Return the time range of snapshots in epoch ms; without an end it includes the newest ones."""
    until_ms = None if options.until is None else options.time_ms("until", options.now_ms)
    since_ms = options.time_ms("since", max(0, (options.now_ms if until_ms is None else until_ms) - _DAY_MS))
    if until_ms is not None and since_ms > until_ms:
        raise UsageError("--since is after --until.")
    return since_ms, until_ms


def _run(spark: SparkSession, options: JobOptions) -> JobResult:
    from pyspark.sql import functions as F  # noqa: N812

    strategies = [strategy_name(word) for word in options.strategies or STRATEGIES]
    changes = _changes(options)
    version = require_version(Table(options.tables, OFFSET_SNAPSHOTS))
    since_ms, until_ms = _span(options)
    # A snapshot cannot be newer than any time that there is. One can have begun before the range, or end after it.
    end_ms = 2**63 - 1 if until_ms is None else until_ms + _SNAPSHOT_MS
    found = read_between(spark, version, since_ms - _SNAPSHOT_MS, end_ms)
    latest = _latest(of_label(found, options.cluster_label), options)
    times_ms = [row.snapshot_us // 1000 for row in latest]
    span = min(times_ms), max(times_ms) + 1
    taken = read_between(spark, version, min(row.first_us for row in latest) // 1000, span[1])
    rows = of_snapshots(taken, spark.createDataFrame(latest, LATEST))
    if options.topics:
        known = {row.topic for row in rows.select("topic").distinct().collect()}
        rows = rows.where(F.col("topic").isin(*require_matching("Topic", options.topics, known)))
    task_count = min(_TASKS_EACH * int(spark.conf.get("spark.sql.shuffle.partitions") or 1), len(latest))
    results = try_groups(groups_with_queues(rows, task_count), strategies, changes).persist()
    try:
        # Compute it here, once: otherwise two branches of one plan would each compute it.
        row_count = results.count()
        written = WrittenTable(_write(spark, results, span, options), row_count)
        return _outcome(results, [(name, change.name) for change in changes for name in strategies], written, options)
    finally:
        results.unpersist()


def _latest(snapshots: DataFrame, options: JobOptions) -> list[Row]:
    since_ms, until_ms = _span(options)
    found = latest_snapshots(snapshots, since_ms, until_ms).collect()
    if not found:
        until = "" if until_ms is None else f" and until {iso_time(until_ms)}"
        raise no_snapshot(options.cluster_label, f"since {iso_time(since_ms)}{until}")
    if not options.groups:
        return found
    wanted = set(require_matching("Group", options.groups, {row.consumer_group for row in found}))
    return [row for row in found if row.consumer_group in wanted]


def _write(spark: SparkSession, results: DataFrame, span: tuple[int, int], options: JobOptions) -> str:
    """Write the results next to what the table has of the same snapshots; return the path of the table."""
    table = Table(options.tables, ALLOC_WHATIF)

    def plan(version: TableVersion | None) -> TableChange:
        if version is None:
            return TableChange(collect(results, table))
        rows = collect(_with_others(spark, version, results, span), table)
        return TableChange(rows, between("snapshot_ts", *span))

    table.change(plan)
    return table.root


def _with_others(spark: SparkSession, version: TableVersion, results: DataFrame, span: tuple[int, int]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    since, until = (F.timestamp_millis(F.lit(at_ms)) for at_ms in span)
    existing = read_between(spark, version, *span)
    return with_others(results, existing.where((F.col("snapshot_ts") >= since) & (F.col("snapshot_ts") < until)))


def _outcome(
    results: DataFrame, order: Sequence[tuple[str, str]], written: WrittenTable, options: JobOptions
) -> JobResult:
    summaries = {(row.strategy, row.change): row.asDict() for row in summarise(results).collect()}
    worst: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in sorted(find_worst(results, _WORST_COUNT).collect(), key=lambda row: row.place):
        worst.setdefault((row.strategy, row.change), []).append(_worst(row))
    groups = name_groups(results).collect()
    skipped = [row for row in groups if row.skip_code is not None]
    rows = [_summary(summaries[key], worst.get(key, [])) for key in order if key in summaries]
    times_ms = [row.snapshot_ms for row in groups]
    labels = sorted({row.cluster_label for row in groups})
    facts: dict[str, Any] = {
        "clusterLabels": labels,
        "groupCount": len(groups),
        "triedGroupCount": len(groups) - len(skipped),
        "skippedGroupCount": len(skipped),
        **time_fields("oldestSnapshotTimestamp", min(times_ms, default=None)),
        **time_fields("newestSnapshotTimestamp", max(times_ms, default=None)),
        "skipped": _skipped(skipped, options.limit or _SKIPPED_COUNT),
    }
    return JobResult(
        rows=rows[: options.limit], row_count=len(rows), facts=facts, written=(written,),
        notes=_notes(facts, skipped), shows=frozenset({"worstGroupClusterLabel"} if len(labels) > 1 else ()),
    )  # fmt: skip


def _worst(row: Row) -> dict[str, Any]:
    return {
        "clusterLabel": row.cluster_label,
        "cluster": row.cluster,
        "group": row.consumer_group,
        "queueCount": row.queue_count,
        "clientCount": row.client_count,
        "queueCountMin": row.least_queues,
        "queueCountMax": row.most_queues,
        "queueImbalance": row.queue_imbalance,
        "lagImbalance": row.lag_imbalance,
        "movedCount": row.moved_count,
    }


def _summary(row: Mapping[str, Any], worst: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    staying = row["stayingQueueCount"]
    return {
        **row,
        "movedShare": row["movedCount"] / staying if staying else None,
        "worstGroup": worst[0]["group"] if worst else None,
        "worstGroupClusterLabel": worst[0]["clusterLabel"] if worst else None,
        "worstGroups": list(worst),
    }


def _skipped(rows: Sequence[Row], count: int) -> list[dict[str, Any]]:
    """Return why groups were skipped: for each reason, the number of groups and the first of them."""
    by_code: dict[str, list[Row]] = {}
    for row in rows:
        by_code.setdefault(row.skip_code, []).append(row)
    return [
        {
            "code": code,
            "groupCount": len(found),
            "groups": [
                {
                    "clusterLabel": row.cluster_label,
                    "cluster": row.cluster,
                    "group": row.consumer_group,
                    "reason": row.skip,
                }
                for row in found[:count]
            ],
        }
        for code, found in sorted(by_code.items())
    ]


def _notes(facts: Mapping[str, Any], skipped: Sequence[Row]) -> tuple[str, ...]:
    notes = [
        "Snapshots do not record clients without queues: groups were tried without such clients.",
        "Imbalance is the maximum per client divided by the smallest possible maximum; 1 is as even as possible.",
    ]
    if skipped:
        what = f"{counted(len(skipped), 'group')} of {facts['groupCount']} could not be tried"
        notes.insert(0, f"{what}: {listed(f'{row.consumer_group} ({row.skip_code})' for row in skipped)}.")
    return tuple(notes)


JOB = Job(
    name="fleet-whatif",
    takes=frozenset({"tables", "cluster_label", "groups", "topics", "since", "until", "strategies", "changes"}),
    needs=frozenset({"tables"}),
    fields=(
        ReportField("strategy", "STRATEGY"),
        ReportField("change", "CHANGE"),
        ReportField("groupCount", "GROUPS", ValueKind.NUMBER, gives_way=True),
        ReportField("refusedCount", "REFUSED", ValueKind.NUMBER),
        ReportField("queueImbalanceMean", "QUEUE IMBALANCE", ValueKind.NUMBER),
        ReportField("queueImbalanceMax", "QUEUE MAX", ValueKind.NUMBER, gives_way=True),
        ReportField("lagImbalanceMean", "LAG IMBALANCE", ValueKind.NUMBER),
        ReportField("lagImbalanceMax", "LAG MAX", ValueKind.NUMBER, gives_way=True),
        ReportField("movedCount", "QUEUES MOVED", ValueKind.NUMBER, gives_way=True),
        ReportField("movedShare", "MOVED", ValueKind.SHARE),
        ReportField("worstGroup", "WORST GROUP", gives_way=True),
        ReportField("worstGroupClusterLabel", "CLUSTER LABEL", is_wide=True),
        ReportField("idleClientCount", "IDLE", ValueKind.NUMBER, is_wide=True),
        ReportField("refusal", "REFUSAL", is_wide=True),
    ),
    check=_check,
    run=_run,
)
