"""The work of the job lag: reads the snapshots, judges the last window, and writes the table and the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from rmqctl.page.file import replace_file
from rmqctl.pipeline.jobs.definition import JobOptions, JobResult, WrittenTable
from rmqctl.pipeline.report.lag_page import LagPage, render_page
from rmqctl.pipeline.tables.conditions import between, of_cluster
from rmqctl.pipeline.tables.delta import Table, TableChange
from rmqctl.pipeline.tables.frames import no_snapshot, require_version
from rmqctl.pipeline.tables.hours import HOUR_MS
from rmqctl.pipeline.tables.marks import whole_times_ms
from rmqctl.pipeline.tables.schemas import LAG_TREND, OFFSET_SNAPSHOTS, arrow_schema
from rmqctl.rules.health import HealthSettings
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time
from rmqctl.text.wildcards import require_matching
from rmqctl.text.words import counted

from .extent import (
    COLUMNS,
    SampleExtent,
    extent_of,
    find_gone,
    find_unseen,
    group_parts,
    parts_of,
    phantom_queues,
    queue_key,
)
from .facts import trend_rows, window_facts
from .groups import count_health, group_rows
from .queue_windows import Windows
from .rows import Chosen, SnapshotRows
from .series import group_series
from .span import LagSpan, fitting_window_ms, given_window_ms, span_of
from .sums import snapshot_sums

_ROWS = 20
# Numbers of groups that are plotted on the page, and listed in its table.
_DRAWN, _LISTED = 10, 200
# A newest snapshot is old after some more of the usual time between two; a sentence names some of the clusters.
_LATE_COUNT, _LATE_MS = 3, 300_000
_NAMED = 3
_COMMIT_ROWS = 200_000


def run(options: JobOptions) -> JobResult:
    """Judge groups, and write the table and the page that are asked for. Raises RmqctlError."""
    version = require_version(Table(options.tables, OFFSET_SNAPSHOTS))
    rows = SnapshotRows(version, options.cluster_label)
    newest_ms = rows.newest_ms()
    if newest_ms is None:
        raise no_snapshot(options.cluster_label, "yet")
    given_ms = given_window_ms(options)
    span, seen = _look(rows, options, newest_ms, given_ms or HOUR_MS)
    length_ms = given_ms or fitting_window_ms(seen.interval_ms)
    if given_ms is None and length_ms > HOUR_MS:
        span, seen = _look(rows, options, newest_ms, length_ms)
    if seen.oldest_ms is None:
        raise no_snapshot(options.cluster_label, f"between {iso_time(span.since_ms)} and {iso_time(span.until_ms)}")
    span = span.begun_with(seen.oldest_ms, length_ms)
    chosen = _chosen(seen, options)
    last_window = Windows(length_ms, span.end_ms % length_ms, span.now_ms)
    last_parts = group_parts(seen, chosen, span.end_ms - length_ms, span.end_ms)
    whole_ms = whole_times_ms(version, {label for label, _, _ in seen.seen}, span.end_ms)
    queues = list(_queues(rows.parts(last_parts, chosen), last_window, whole_ms))
    gone = find_gone(seen, chosen)
    unseen = find_unseen(seen.without_phantoms(whole_ms), chosen, span.end_ms - length_ms, gone)
    groups = group_rows(queues, gone, unseen)
    facts = _facts(span, seen, newest_ms, length_ms, groups)
    warnings = tuple(_age_warnings(seen, options, span))
    written = []
    if not chosen:
        written.append(_write(rows, seen, options, span, Windows(length_ms, 0, newest_ms)))
    if options.html is not None:
        written.append(_write_page(rows, seen, chosen, last_window, groups, facts, warnings, options))
    limit = options.limit or _ROWS
    most_count = max((row["sample_count"] for row in queues), default=0)
    return JobResult(
        rows=groups[:limit],
        row_count=len(groups),
        facts=facts,
        written=tuple(written),
        notes=tuple(_notes(options, length_ms, most_count, len(groups) - limit)),
        warnings=warnings,
        shows=frozenset(_shown_columns(groups, facts)),
    )


def _look(rows: SnapshotRows, options: JobOptions, newest_ms: int, length_ms: int) -> tuple[LagSpan, SampleExtent]:
    """Return what is examined with windows of a length, and what there is."""
    span = span_of(options, newest_ms, length_ms)
    rows.keep(span.since_ms, span.until_ms)
    return span, extent_of(rows.tables(span.since_ms, span.until_ms, COLUMNS), span.end_ms)


def _queues(tables: Iterable[pa.Table], window: Windows, whole_ms: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the row of each queue in a window, except those that the last complete snapshot shows to be none."""
    for table in tables:
        phantoms = phantom_queues(table, whole_ms)
        for made in window_facts([table], window):
            yield from (row for row in made.to_pylist() if queue_key(row) not in phantoms)


def _shown_columns(groups: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the wide columns that tell these groups apart, or what their lag does not have."""
    if len(facts["clusterLabels"]) > 1:
        yield "clusterLabel"
    for key in ("lost", "leftTopics", "goneTopics"):
        if any(row[key] for row in groups):
            yield key


def _chosen(seen: SampleExtent, options: JobOptions) -> dict[str, tuple[str, ...]]:
    """Return the names of the selected groups and topics, by column. Raises NotFoundError."""
    groups, topics = seen.names()
    chosen = {}
    for kind, column, patterns, names in (
        ("Group", "consumer_group", options.groups, groups), ("Topic", "topic", options.topics, topics),
    ):  # fmt: skip
        if patterns:
            chosen[column] = tuple(require_matching(kind, patterns, names))
    return chosen


def _write(
    rows: SnapshotRows, seen: SampleExtent, options: JobOptions, span: LagSpan, windows: Windows
) -> WrittenTable:
    table = Table(options.tables, LAG_TREND)
    # Windows of one length do not replace those of another.
    whose = [f"window_s = {windows.length_ms // 1000}"]
    if options.cluster_label is not None:
        whose.append(of_cluster(options.cluster_label))
    parts = parts_of(seen, span.since_ms, span.until_ms, max(windows.length_ms, HOUR_MS))
    made = [arrow_schema(LAG_TREND).empty_table()]
    begin_ms, row_count = span.since_ms, 0
    for until_ms, together in groupby(parts, lambda part: part.until_ms):
        made += trend_rows(rows.parts(together, {}), windows)
        trend = pa.concat_tables(made)
        # To replace rows needs several times their memory, so many are replaced by several commits.
        if trend.num_rows >= _COMMIT_ROWS or until_ms == span.until_ms:
            where = " and ".join([*whose, between("window_start", begin_ms, until_ms)])
            _replace(table, trend, where)
            row_count += trend.num_rows
            begin_ms, made = until_ms, made[:1]
    return WrittenTable(table.root, row_count)


def _replace(table: Table, rows: pa.Table, where: str) -> None:
    table.change(lambda _version: TableChange(rows, where))


def _write_page(
    rows: SnapshotRows, seen: SampleExtent, chosen: Chosen, windows: Windows, groups: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any], warnings: Sequence[str], options: JobOptions,
) -> WrittenTable:  # fmt: skip
    drawn = groups[: min(options.limit or _DRAWN, _DRAWN)]
    chosen = {**chosen, "consumer_group": tuple({row["group"] for row in drawn})}
    trend: list[dict[str, Any]] = []
    sums: list[dict[str, Any]] = []
    if drawn:
        for table in rows.parts(group_parts(seen, chosen, facts["sinceTimestamp"], facts["untilTimestamp"]), chosen):
            trend += [row for made in window_facts([table], windows) for row in made.to_pylist()]
            sums += snapshot_sums(table)

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
    path, listed = str(options.html), groups[: max(options.limit or 0, _LISTED)]
    replace_file(path, render_page(LagPage(facts, listed, len(groups), series, warnings)))
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
        "queueCount": sum(row["queueCount"] or 0 for row in groups),
        "stuckCount": sum(row["stuckCount"] or 0 for row in groups),
        "groupCounts": count_health(groups),
    }


def _age_warnings(seen: SampleExtent, options: JobOptions, span: LagSpan) -> Iterator[str]:
    """Yield a sentence about clusters of which no snapshot was taken lately, or before the requested end."""
    newest: dict[str, int] = {}
    for (label, _, _), (at_ms, _) in seen.seen.items():
        newest[label] = max(at_ms, newest.get(label, at_ms))
    until_ms = options.now_ms if options.until is None else span.end_ms
    most_ms = max(_LATE_COUNT * (seen.interval_ms or 0), _LATE_MS)
    late = sorted((at_ms, label) for label, at_ms in newest.items() if until_ms - at_ms > most_ms)
    if late:
        named = ", ".join(f"{label} ({iso_time(at_ms)})" for at_ms, label in late[:_NAMED])
        more = f" and {counted(len(late) - _NAMED, 'other cluster')}" if len(late) > _NAMED else ""
        when = "now" if options.until is None else iso_time(span.end_ms)
        yield f"The newest snapshot is older than usual at {when}: {named}{more}."


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
