"""The job `lag`: judges groups by their snapshots (health, trends, stuck queues, skew, owners); also as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rmqctl.page.file import replace_file, require_file
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind, WrittenTable
from rmqctl.pipeline.report.lag_page import LagPage, render_page
from rmqctl.pipeline.session import require_modules
from rmqctl.pipeline.tables.conditions import between, of_cluster
from rmqctl.pipeline.tables.delta import Table, TableFile, TableVersion
from rmqctl.pipeline.tables.frames import of_label, of_queues, read_between, read_files, replace_rows, require_version
from rmqctl.pipeline.tables.hours import HOUR_MS
from rmqctl.pipeline.tables.schemas import LAG_TREND, OFFSET_SNAPSHOTS
from rmqctl.rules.health import HealthSettings
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.wildcards import require_matching
from rmqctl.text.words import counted

from .facts import TaskDivision, find_gone, share_out, taken_between, trend_rows, window_facts
from .groups import count_health, group_rows
from .series import group_series, snapshot_sums
from .span import LagSpan, SampleExtent, extent_of, fitting_window_ms, given_window_ms, span_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .queue_windows import Windows

_ROWS = 20
# Numbers of groups that are plotted on the page, and listed in its table.
_DRAWN, _LISTED = 10, 200
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
# Files in which the newest snapshot of a cluster is looked for at a time.
_FILES_AT_ONCE = 16


def _check(options: JobOptions) -> None:
    given_window_ms(options)
    for name in ("since", "until"):
        options.time_ms(name, 0)
    if options.html is not None:
        require_file("--html", options.html)
        require_modules({"matplotlib": "Matplotlib"})


def _run(spark: SparkSession, options: JobOptions) -> JobResult:
    with _batches_by_rows(spark):
        return _judge(spark, options)


def _judge(spark: SparkSession, options: JobOptions) -> JobResult:
    from .queue_windows import Windows

    version = require_version(Table(options.tables, OFFSET_SNAPSHOTS))
    newest_ms = _newest_ms(spark, version, options)
    if newest_ms is None:
        whose = "" if options.cluster_label is None else f" of {options.cluster_label}"
        note = f"There are no snapshots{whose}. Take one with rmqctl pipeline run snapshot."
        return JobResult(row_count=0, notes=(note,))

    def taken(since_ms: int, until_ms: int) -> DataFrame:
        found = read_between(spark, version, since_ms, until_ms)
        return of_label(taken_between(found, since_ms, until_ms), options.cluster_label)

    given_ms = given_window_ms(options)
    span = span_of(options, newest_ms, given_ms or HOUR_MS)
    every_row = taken(span.since_ms, span.until_ms)
    seen = extent_of(of_queues(every_row), with_interval=given_ms is None)
    length_ms = given_ms or fitting_window_ms(seen.interval_ms)
    if given_ms is None and length_ms > HOUR_MS:
        span = span_of(options, newest_ms, length_ms)
        every_row = taken(span.since_ms, span.until_ms)
        seen = extent_of(of_queues(every_row), with_interval=False)
    rows = of_queues(every_row)
    if seen.oldest_ms is None:
        between = f"between {iso_time(span.since_ms)} and {iso_time(span.until_ms)}"
        return JobResult(row_count=0, notes=(f"There are no snapshots {between}.",))
    span = span.begun_with(seen.oldest_ms, length_ms)
    chosen = _chosen(every_row, options)
    core_count = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    unit_ms, looked_at_ms = max(length_ms, HOUR_MS), span.until_ms - span.since_ms
    tasks = share_out(seen.row_count, unit_ms, looked_at_ms // unit_ms, core_count)
    last_tasks = share_out(seen.row_count * length_ms // looked_at_ms, length_ms, 1, core_count)
    all_windows = Windows(length_ms, 0, newest_ms)
    last_window = Windows(length_ms, span.end_ms % length_ms, span.now_ms)

    rows = chosen(rows)
    # A group that is gone has no topic: it counts for a topic that an earlier row has.
    gone = [
        each for each in find_gone(chosen(every_row, or_none=True)) if not options.topics or each.last_ms is not None
    ]
    last = chosen(of_queues(taken(span.end_ms - length_ms, span.end_ms)))
    last_facts = window_facts(last, last_window, last_tasks).toArrow()
    written = []
    # The report is made here while Spark writes the table.
    with ThreadPoolExecutor(1) as background:
        writing = None
        if not (options.groups or options.topics):
            writing = background.submit(_write, trend_rows(rows, all_windows, tasks), options, span, length_ms)
        queues = last_facts.to_pylist()
        groups = group_rows(queues, gone)
        facts = _facts(span, seen, newest_ms, length_ms, groups)
        if writing is not None:
            written.append(writing.result())
    if options.html is not None:
        written.append(_write_page(rows, last_window, groups, facts, options))
    limit = options.limit or _ROWS
    most_count = max((row["sample_count"] for row in queues), default=0)
    return JobResult(
        rows=groups[:limit],
        row_count=len(groups),
        facts=facts,
        written=tuple(written),
        notes=tuple(_notes(options, length_ms, most_count, len(groups) - limit)),
        shows=frozenset(_shown_columns(groups, facts)),
    )


def _shown_columns(groups: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the wide columns that tell these groups apart, or what their lag does not have."""
    if len(facts["clusterLabels"]) > 1:
        yield "clusterLabel"
    for key in ("lost", "leftTopics", "goneTopics"):
        if any(row[key] for row in groups):
            yield key


@contextmanager
def _batches_by_rows(spark: SparkSession) -> Iterator[None]:
    """Limit batches for Python only by their number of rows.

    By default Spark sums the bytes of a batch after each of its rows, to stay below 64 MB. Our batches have 2 MB, and
    the sums cost a third of a task's time.
    """
    before = spark.conf.get(_BATCH_BYTES, None)
    spark.conf.set(_BATCH_BYTES, str(2**31 - 1))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_BATCH_BYTES)
        else:
            spark.conf.set(_BATCH_BYTES, before)


def _newest_ms(spark: SparkSession, version: TableVersion, options: JobOptions) -> int | None:
    """Return when the newest snapshot was taken, None without one."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    files = version.files
    if options.cluster_label is None and all(file.last_ms is not None for file in files):
        return max((file.last_ms for file in files if file.last_ms is not None), default=None)
    newest_ms: int | None = None
    for some in _at_once(files):
        if newest_ms is not None and all(file.last_ms is not None and file.last_ms <= newest_ms for file in some):
            break
        rows = of_label(read_files(spark, version, some), options.cluster_label)
        found_ms = rows.select(F.unix_millis(F.max("snapshot_ts"))).collect()[0][0]
        newest_ms = max((each for each in (newest_ms, found_ms) if each is not None), default=None)
    return newest_ms


def _at_once(files: Sequence[TableFile]) -> Iterator[Sequence[TableFile]]:
    """Yield files in order, each time more: the newest ones usually suffice."""
    begin, count = 0, _FILES_AT_ONCE
    while begin < len(files):
        yield files[begin : begin + count]
        begin, count = begin + count, 4 * count


def _chosen(rows: DataFrame, options: JobOptions) -> Callable[..., DataFrame]:
    """Return a function that keeps the rows of the selected groups and topics. Raises NotFoundError.

    With `or_none`, also rows without such a name: that a whole group is gone.
    """
    from pyspark.sql import functions as F  # noqa: N812

    wanted = {}
    for kind, column, patterns in (("Group", "consumer_group", options.groups), ("Topic", "topic", options.topics)):
        if patterns:
            names = [row[0] for row in rows.select(column).distinct().collect() if row[0] is not None]
            wanted[column] = require_matching(kind, patterns, names)

    def choose(frame: DataFrame, *, or_none: bool = False) -> DataFrame:
        for column, names in wanted.items():
            is_named = F.col(column).isin(*names)
            frame = frame.where(is_named | F.col(column).isNull() if or_none else is_named)
        return frame

    return choose


def _write(trend: DataFrame, options: JobOptions, span: LagSpan, length_ms: int) -> WrittenTable:
    table = Table(options.tables, LAG_TREND)
    # Windows of one length do not replace those of another.
    where = [f"window_s = {length_ms // 1000}", between("window_start", span.since_ms, span.until_ms)]
    if options.cluster_label is not None:
        where.append(of_cluster(options.cluster_label))
    return WrittenTable(table.root, replace_rows(table, trend, " and ".join(where)))


def _write_page(
    rows: DataFrame, windows: Windows, groups: Sequence[Mapping[str, Any]], facts: Mapping[str, Any],
    options: JobOptions,
) -> WrittenTable:  # fmt: skip
    from pyspark.sql import functions as F  # noqa: N812

    drawn = groups[: min(options.limit or _DRAWN, _DRAWN)]
    names = {row["group"] for row in drawn}
    of_drawn = rows.where(F.col("consumer_group").isin(*names))
    facts_of_drawn = window_facts(of_drawn, windows, TaskDivision(windows.length_ms))
    trend = facts_of_drawn.toArrow().to_pylist() if names else []
    sums = snapshot_sums(of_drawn) if names else []

    def of_group(found: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        return (
            each
            for each in found
            if (each["cluster_label"], each["consumer_group"]) == (row["clusterLabel"], row["group"])
            and each["cluster"] in (row["cluster"], None)
        )

    series = {
        (row["clusterLabel"], row["cluster"], row["group"]): group_series(
            of_group(sums, row), of_group(trend, row), facts["sinceTimestamp"], windows.until_ms + 1
        )
        for row in drawn
    }
    path = str(options.html)
    replace_file(path, render_page(LagPage(facts, groups[: max(options.limit or 0, _LISTED)], len(groups), series)))
    return WrittenTable(path)


def _facts(
    span: LagSpan, seen: SampleExtent, newest_ms: int, length_ms: int, groups: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    times = {
        "since": span.since_ms,
        "until": span.until_ms,
        "windowStart": span.end_ms - length_ms,
        "windowEnd": span.end_ms,
        "newestSnapshot": newest_ms,
    }
    named = {f"{name}Timestamp": at_ms for name, at_ms in times.items()}
    return {
        **named,
        **{f"{name}Iso": iso_time(at_ms) for name, at_ms in named.items()},
        "clusterLabels": sorted({row["clusterLabel"] for row in groups}),
        "windowMs": length_ms,
        "windowCount": (span.until_ms - span.since_ms) // length_ms,
        "snapshotCount": seen.snapshot_count,
        "snapshotRowCount": seen.row_count,
        "groupCount": len(groups),
        "queueCount": sum(row["queueCount"] for row in groups),
        "stuckCount": sum(row["stuckCount"] for row in groups),
        "groupCounts": count_health(groups),
    }


def _notes(options: JobOptions, length_ms: int, most_count: int, more_count: int) -> list[str]:
    notes = []
    window = short_duration(length_ms)
    if most_count < HealthSettings().least_count:
        notes.append(
            f"No queue has more than {counted(most_count, 'snapshot')} in the last {window}; use a longer --window."
        )
    elif options.window is None:
        notes.append(f"Health is that of the last {window}, in up to {counted(most_count, 'snapshot')}; see --window.")
    if options.groups or options.topics:
        notes.append("The table lag_trend was not written, because its hours must have all groups and topics.")
    if more_count > 0:
        notes.append(f"{counted(more_count, 'group')} more; show them with --limit.")
    return notes


JOB = Job(
    name="lag",
    takes=frozenset({"tables", "cluster_label", "groups", "topics", "since", "until", "window", "html"}),
    needs=frozenset({"tables"}),
    check=_check,
    run=_run,
    fields=(
        ReportField("group", "GROUP"),
        ReportField("clusterLabel", "CLUSTER LABEL", is_wide=True),
        ReportField("cluster", "CLUSTER", is_wide=True),
        ReportField("health", "HEALTH"),
        ReportField("queueCount", "QUEUES", ValueKind.NUMBER, gives_way=True),
        ReportField("lag", "LAG", ValueKind.NUMBER),
        ReportField("lagAtStart", "LAG BEFORE", ValueKind.NUMBER, is_wide=True),
        ReportField("lost", "LOST", ValueKind.NUMBER, is_wide=True),
        ReportField("slopeMsgsPerS", "LAG/S", ValueKind.NUMBER),
        ReportField("produceMsgsPerS", "IN/S", ValueKind.NUMBER, is_wide=True),
        ReportField("consumeMsgsPerS", "OUT/S", ValueKind.NUMBER, is_wide=True),
        ReportField("etaMs", "CAUGHT UP IN", ValueKind.DURATION, gives_way=True),
        ReportField("stuckCount", "STUCK", ValueKind.NUMBER),
        ReportField("lagSkew", "SKEW", ValueKind.NUMBER, is_wide=True),
        ReportField("memberLagSkew", "MEMBER SKEW", ValueKind.NUMBER, is_wide=True),
        ReportField("clientCount", "CLIENTS", ValueKind.NUMBER, is_wide=True),
        ReportField("ownerChangeCount", "OWNER CHANGES", ValueKind.NUMBER, gives_way=True),
        ReportField("worstQueue", "WORST QUEUE"),
        ReportField("leftTopics", "LEFT TOPICS", is_wide=True),
        ReportField("goneTopics", "GONE TOPICS", is_wide=True),
        ReportField("reason", "WHY", is_sentence=True),
    ),
)
