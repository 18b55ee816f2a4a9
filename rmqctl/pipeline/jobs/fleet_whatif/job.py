"""The job `fleet-whatif`: tries other strategies and sizes on every group of the last snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmqctl.errors import NotFoundError, UsageError
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind, WrittenTable
from rmqctl.pipeline.tables.schemas import (
    ALLOC_WHATIF,
    OFFSET_SNAPSHOTS,
    PARTITIONS,
    SCHEMAS,
    read_table,
    replace_partitions,
    table_path,
)
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
    of_hours,
    of_snapshots,
    summarise,
    try_groups,
    with_others,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

# Groups without a snapshot within a day are not tried, unless --since is given.
_DAY_MS = 86_400_000
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
    table = _read(spark, options, OFFSET_SNAPSHOTS)
    latest = _latest(_within(table, options), options)
    hours = sorted({(row.dt, row.hr) for row in latest})
    rows = of_snapshots(table.where(of_hours(hours)), spark.createDataFrame(latest, LATEST))
    if options.topics:
        known = {row.topic for row in rows.select("topic").distinct().collect()}
        rows = rows.where(F.col("topic").isin(*require_matching("Topic", options.topics, known)))
    task_count = min(_TASKS_EACH * int(spark.conf.get("spark.sql.shuffle.partitions") or 1), len(latest))
    results = try_groups(groups_with_queues(rows, task_count), strategies, changes).persist()
    try:
        # Compute it here, once: otherwise two branches of one plan would each compute it.
        row_count = results.count()
        _write(spark, results, hours, options)
        written = WrittenTable(table_path(options.tables, ALLOC_WHATIF), row_count)
        return _outcome(results, [(name, change.name) for change in changes for name in strategies], written, options)
    finally:
        results.unpersist()


def _within(table: DataFrame, options: JobOptions) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    since_ms, until_ms = _span(options)
    found = table.where(F.col("snapshot_ts") >= F.timestamp_millis(F.lit(since_ms)))
    # Skips files of other days; dt is the day of the snapshot in UTC.
    found = found.where(F.col("dt") >= (iso_time(since_ms) or "")[:10])
    if until_ms is None:
        return found
    found = found.where(F.col("dt") <= (iso_time(until_ms) or "")[:10])
    return found.where(F.col("snapshot_ts") <= F.timestamp_millis(F.lit(until_ms)))


def _latest(snapshots: DataFrame, options: JobOptions) -> list[Row]:
    found = latest_snapshots(snapshots).collect()
    if not found:
        since_ms, until_ms = _span(options)
        until = "" if until_ms is None else f" and until {iso_time(until_ms)}"
        hint = "Use an earlier --since, or take a snapshot with rmqctl pipeline run snapshot."
        error = NotFoundError("Snapshot", "", hint=hint)
        raise error.reworded(f"No snapshot was taken since {iso_time(since_ms)}{until}.")
    if not options.groups:
        return found
    wanted = set(require_matching("Group", options.groups, {row.consumer_group for row in found}))
    return [row for row in found if row.consumer_group in wanted]


def _write(spark: SparkSession, results: DataFrame, hours: Sequence[tuple[str, int]], options: JobOptions) -> None:
    try:
        rows = with_others(results, _read(spark, options, ALLOC_WHATIF).where(of_hours(hours)))
    except NotFoundError:
        rows = results
    ordered = rows.repartition("dt", "hr").sortWithinPartitions("dt", "hr", "consumer_group", "cluster", "change")
    replace_partitions(ordered, table_path(options.tables, ALLOC_WHATIF), PARTITIONS[ALLOC_WHATIF])


def _read(spark: SparkSession, options: JobOptions, name: str) -> DataFrame:
    return read_table(spark, table_path(options.tables, name), SCHEMAS[name])


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
    facts: dict[str, Any] = {
        "groupCount": len(groups),
        "triedGroupCount": len(groups) - len(skipped),
        "skippedGroupCount": len(skipped),
        **time_fields("oldestSnapshotTimestamp", min(times_ms, default=None)),
        **time_fields("newestSnapshotTimestamp", max(times_ms, default=None)),
        "skipped": _skipped(skipped, options.limit or _SKIPPED_COUNT),
    }
    return JobResult(
        rows=rows[: options.limit], row_count=len(rows), facts=facts, written=(written,),
        notes=_notes(facts, skipped),
    )  # fmt: skip


def _worst(row: Row) -> dict[str, Any]:
    return {
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
                {"cluster": row.cluster, "group": row.consumer_group, "reason": row.skip} for row in found[:count]
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
    takes=frozenset({"tables", "groups", "topics", "since", "until", "strategies", "changes"}),
    needs=frozenset({"tables"}),
    fields=(
        ReportField("strategy", "STRATEGY"),
        ReportField("change", "CHANGE"),
        ReportField("groupCount", "GROUPS", ValueKind.NUMBER),
        ReportField("refusedCount", "REFUSED", ValueKind.NUMBER),
        ReportField("queueImbalanceMean", "QUEUE IMBALANCE", ValueKind.NUMBER),
        ReportField("queueImbalanceMax", "QUEUE MAX", ValueKind.NUMBER, gives_way=True),
        ReportField("lagImbalanceMean", "LAG IMBALANCE", ValueKind.NUMBER),
        ReportField("lagImbalanceMax", "LAG MAX", ValueKind.NUMBER, gives_way=True),
        ReportField("movedCount", "MOVED", ValueKind.NUMBER, gives_way=True),
        ReportField("movedShare", "MOVED SHARE", ValueKind.NUMBER),
        ReportField("worstGroup", "WORST GROUP"),
        ReportField("idleClientCount", "IDLE", ValueKind.NUMBER, is_wide=True),
        ReportField("refusal", "REFUSAL", is_wide=True),
    ),
    check=_check,
    run=_run,
)
