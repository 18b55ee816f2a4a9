"""The job `audit`: messages produced, stored and consumed in windows of 10 minutes; duplicates, losses, latency."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from rmqctl.admin.topics.queues import fetch_route
from rmqctl.changes.journal.skips import journal_skips
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import UsageError
from rmqctl.model.names import DELAY_TOPIC
from rmqctl.net.clock import SystemClock, pause
from rmqctl.pipeline import FORMAT
from rmqctl.pipeline.asking import ask_cluster
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind, WrittenTable, always
from rmqctl.pipeline.source.options import options_of
from rmqctl.pipeline.tables.conditions import any_of, between, of_cluster
from rmqctl.pipeline.tables.delta import Table
from rmqctl.pipeline.tables.frames import replace_rows
from rmqctl.pipeline.tables.hours import HOUR_MS, ceil_hour_ms, floor_hour_ms
from rmqctl.pipeline.tables.schemas import AUDIT
from rmqctl.text.times import iso_time
from rmqctl.text.wildcards import is_pattern

from .report import SHOWN_COUNT, audit_notes, audit_outcome
from .start import AuditStart, fetch_audit_start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .rows import AuditSpan

# Messages stored shortly before and after the windows are read as well: clocks of producers and brokers differ, and a
# producer retries for some seconds.
_MARGIN_MS = 600_000
# Windows that ended less than this long ago are open: clients write traces some seconds late, 5.x up to 5 s.
_OPEN_MS = 300_000
# Traces are read this long after the groups' offsets, so that messages before those offsets have been traced.
_TRACES_AFTER_S = 10.0


def _hours(options: JobOptions) -> tuple[int, int]:
    """Return the range of whole hours to audit; by default the last complete hour and the current one."""
    since_ms = floor_hour_ms(options.time_ms("since", options.now_ms - HOUR_MS))
    until_ms = min(options.time_ms("until", options.now_ms), options.now_ms)
    if until_ms <= since_ms:
        raise UsageError("--until must be after --since.")
    return since_ms, ceil_hour_ms(until_ms)


def _check(options: JobOptions) -> None:
    wild = [topic for topic in options.topics if is_pattern(topic)]
    if wild:
        raise UsageError(f"The job audit does not support topic patterns like {wild[0]}.", hint="Name each topic.")
    _hours(options)


async def _look(client: Client, options: JobOptions) -> None:
    for topic in options.topics:
        await fetch_route(client, topic)
    if options.trace_topic is not None:
        await fetch_route(client, options.trace_topic)


def _run(spark: SparkSession, options: JobOptions) -> JobResult:
    return audit(spark, options)


def audit(spark: SparkSession, options: JobOptions, *, traces_after_s: float = _TRACES_AFTER_S) -> JobResult:
    """Read topics and traces, write the table when a folder is given, and return what was found.

    Group offsets are read first, and traces at least `traces_after_s` seconds later: a message before a group's offset
    that has no trace counts as lost only if its trace had time to arrive.
    """
    from . import passed, rows, trace_rows

    access, topics = options.cluster(), tuple(dict.fromkeys(options.topics))
    since_ms, until_ms = _hours(options)
    clock = SystemClock()
    asked_s = clock.monotonic_s()

    found = ask_cluster(access, lambda client: fetch_audit_start(client, topics, options.traces(), options.now_ms))
    skips = [
        (each.mq.topic, each.group, each.mq.broker_name, each.mq.queue_id, *astuple(each)[2:])
        for each in journal_skips(found.brokers, topics)
    ]
    ending_ms = until_ms + _MARGIN_MS
    read_until_ms = ending_ms if ending_ms < options.now_ms else None
    span = rows.AuditSpan(since_ms, until_ms, found.held_since_ms, options.now_ms - _OPEN_MS, read_until_ms)
    read = partial(_read, spark, access, since_ms=since_ms - _MARGIN_MS)
    kept = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist())
        return kept[-1]

    try:
        messages = read(topics, rows.MESSAGES, until_ms=read_until_ms)
        stored = keep(rows.stored_messages(messages, spark.createDataFrame(found.offsets, rows.OFFSETS)))
        stored_count = stored.count()
        if found.has_traces:
            asyncio.run(pause(clock, max(0.0, asked_s + traces_after_s - clock.monotonic_s())))
            traces = read((options.traces(),), trace_rows.TRACES, until_ms=None)
        else:
            traces = spark.createDataFrame([], trace_rows.TRACES)
        records = keep(trace_rows.trace_records(traces))
        names = spark.createDataFrame(_client_names(topics), "topic string, full_topic string")
        published = rows.published_messages(
            _renamed(trace_rows.publications(records), names), _renamed(trace_rows.decisions(records), names)
        )
        if found.has_traces and found.held_topics:
            delivered_levels = spark.createDataFrame(found.delivered, rows.DELIVERED)
            held = rows.held_back(read(found.held_topics, rows.HELD, until_ms=None), delivered_levels, span)
            published = rows.with_held_back(published, held, has_levels=DELAY_TOPIC in found.held_topics)
        groups = spark.createDataFrame(found.groups, rows.GROUPS)
        delivered = rows.deliveries_by_message(_full_groups(spark, trace_rows.deliveries(records), found))
        audited = keep(rows.audited_messages(stored, published, delivered, span))
        unsettled = keep(rows.audited_pairs(audited, groups))
        pairs = keep(passed.settled_pairs(unsettled, spark.createDataFrame(skips, passed.SKIPS)))
        # Few rows that are read several times: in one partition.
        windows = keep(rows.windows(audited, pairs).coalesce(1))
        written = () if options.tables is None else _write(windows, options, span, topics)
        outcome = audit_outcome(windows, rows.samples(audited, pairs, options.limit or SHOWN_COUNT), options, span)
    finally:
        for frame in reversed(kept):
            frame.unpersist()
    notes = audit_notes(outcome, found, options, has_messages=stored_count > 0)
    return JobResult(
        rows=outcome.rows, row_count=outcome.row_count, facts=outcome.facts, written=written, notes=tuple(notes)
    )


def _read(
    spark: SparkSession, access: Access, topics: Iterable[str], schema: str, *, since_ms: int, until_ms: int | None
) -> DataFrame:
    given = options_of(access) | {"topic": ",".join(topics)}
    if since_ms > 0:
        given["startingOffsets"] = str(iso_time(since_ms))
    if until_ms is not None:
        given["endingOffsets"] = str(iso_time(until_ms))
    return spark.read.format(FORMAT).schema(schema).options(**given).load()


def _client_names(topics: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of the name that clients write into traces, without a namespace, and the full name."""
    return [(name.partition("%")[2] if name.find("%") > 0 else name, name) for name in topics]


def _renamed(frame: DataFrame, names: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    others = [name for name in frame.columns if name != "topic"]
    return frame.join(F.broadcast(names), "topic").select(F.col("full_topic").alias("topic"), *others)


def _full_groups(spark: SparkSession, deliveries: DataFrame, found: AuditStart) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    full = _client_names({group for _, group, _ in found.groups})
    names = spark.createDataFrame([pair for pair in full if pair[0] != pair[1]], "consumer_group string, full string")
    return deliveries.join(F.broadcast(names), "consumer_group", "left").withColumn(
        "consumer_group", F.coalesce("full", "consumer_group")
    )


def _write(windows: DataFrame, options: JobOptions, span: AuditSpan, topics: Sequence[str]) -> tuple[WrittenTable, ...]:
    """Replace the hours that brokers still retain completely; a partly deleted hour would only lose rows."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    table, label = Table(options.tables, AUDIT), options.label()
    hour_ms = F.floor(F.unix_millis("window_start") / F.lit(HOUR_MS)) * HOUR_MS
    whole = windows.where(hour_ms >= span.held_since_ms).withColumn("cluster_label", F.lit(label))
    since_ms = max(span.since_ms, ceil_hour_ms(span.held_since_ms))
    where = [of_cluster(label), any_of("topic", topics), between("window_start", since_ms, span.until_ms)]
    return (WrittenTable(table.root, replace_rows(table, whole, " and ".join(where))),)


JOB = Job(
    name="audit",
    takes=frozenset({"cluster_label", "topics", "groups", "since", "until", "tables", "trace_topic"}),
    needs=frozenset({"topics"}),
    fields=(
        ReportField("windowStart", "WINDOW", ValueKind.MINUTE),
        ReportField("topic", "TOPIC"),
        ReportField("tier", "TIER"),
        ReportField("group", "GROUP"),
        ReportField("state", "STATE", gives_way=True),
        ReportField("count", "COUNT", ValueKind.NUMBER),
        ReportField("distinctCount", "DISTINCT", ValueKind.NUMBER, is_wide=True),
        ReportField("duplicateCount", "DUPLICATES", ValueKind.NUMBER),
        ReportField("lostCount", "LOST", ValueKind.NUMBER),
        ReportField("skippedCount", "SKIPPED", ValueKind.NUMBER, gives_way=True),
        ReportField("untracedCount", "UNTRACED", ValueKind.NUMBER),
        ReportField("untracedShare", "UNTRACED SHARE", ValueKind.SHARE, is_wide=True),
        ReportField("waitingCount", "WAITING", ValueKind.NUMBER, gives_way=True),
        ReportField("failedCount", "FAILED", ValueKind.NUMBER, gives_way=True),
        ReportField("filteredCount", "FILTERED", ValueKind.NUMBER, is_wide=True),
        ReportField("unknownCount", "UNKNOWN", ValueKind.NUMBER, gives_way=True),
        ReportField("p50LatencyMs", "P50", ValueKind.DURATION, gives_way=True),
        ReportField("p99LatencyMs", "P99", ValueKind.DURATION, gives_way=True),
    ),
    asks_cluster=always,
    check=_check,
    look=_look,
    run=_run,
)
