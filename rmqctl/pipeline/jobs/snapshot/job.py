"""The job `snapshot`: writes the offsets of all groups at one moment, or those of recordings, to a table."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rmqctl.admin.offsets.fleet import FleetProgress, fetch_fleet_progress, require_groups
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.observe.recording import RecordedSample, read_recording
from rmqctl.observe.sampled_progress import sample_progress
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind, WrittenTable
from rmqctl.pipeline.tables.files import TableFiles
from rmqctl.pipeline.tables.hours import Hour, hour_of
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS, table_path
from rmqctl.rules.file_claims import require_fit
from rmqctl.text.times import time_fields
from rmqctl.text.wildcards import matching
from rmqctl.text.words import counted

from .compaction import compact, drop_run
from .rows import (
    SnapshotRun,
    TablePart,
    check_run_id,
    default_run_id,
    find_run,
    find_run_ids,
    most_behind,
    progress_rows,
    recording_part,
    sample_rows,
    sample_run,
    summary_row,
    write_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LIMIT = 20


def check(options: JobOptions) -> None:
    """Raise UsageError for options that cannot be combined."""
    if options.run_id is not None:
        check_run_id(options.run_id)
        if options.recordings:
            raise UsageError(
                "--run-id and --recording cannot be combined.",
                hint="Omit --run-id: each sample of a recording is a run with its own id.",
            )


async def look(client: Client, options: JobOptions) -> None:
    """Make sure that the groups exist, and that the cluster answers."""
    if asks_cluster(options):
        await require_groups(client, options.groups)


def asks_cluster(options: JobOptions) -> bool:
    """Return whether the job asks the cluster; recordings do not need it."""
    return not options.recordings


def run(spark: SparkSession, options: JobOptions) -> JobResult:
    """Take a snapshot or import recordings, and then merge hours when requested.

    A run that is already in the table stays unchanged; `overwrite` replaces it. Without access to a cluster and without
    recordings, it only merges. Raises UsageError for what Spark Connect does not support, and the errors of the
    cluster.
    """
    path = table_path(options.tables, OFFSET_SNAPSHOTS)
    files = TableFiles.of(spark, path)
    if options.compact and files is None:
        raise UsageError(
            "--compact is not supported with Spark Connect, which cannot delete files.",
            hint="Use --master instead of --remote, or omit --compact.",
        )
    if options.recordings:
        outcome = _take_recordings(spark, path, options)
    elif options.access is not None:
        outcome = _take_snapshot(spark, files, path, options, options.access)
    elif options.compact:
        outcome = JobResult()
    else:
        raise UsageError("A snapshot needs a cluster (-n) or a recording (--recording).")
    if options.compact and files is not None:
        done = compact(spark, files, path, options.now_ms)
        facts = {**outcome.facts, "mergedHourCount": done.hour_count, "mergedFileCount": done.file_count}
        if done.hour_count:
            files_of_hours = f"{counted(done.file_count, 'file')} of {counted(done.hour_count, 'hour')}"
            note = f"{files_of_hours} were merged into one per hour."
        else:
            note = "No past hour has more than one file, so nothing was merged."
        outcome = replace(outcome, facts=facts, notes=(*outcome.notes, note))
    return outcome


def _take_snapshot(
    spark: SparkSession, files: TableFiles | None, path: str, options: JobOptions, access: Access
) -> JobResult:
    at = SnapshotRun(options.run_id or default_run_id(options.now_ms), options.now_ms)
    place = TablePart(hour_of(at.at_ms), at.run_id)
    # An id that is a time can only be in that hour; any other id can be in any hour.
    found = find_run(spark, path, at.run_id, None if options.run_id else place.hour)
    if found and not options.overwrite:
        note = f"Run {at.run_id} is already in the table, so no snapshot was taken."
        return JobResult(facts={"runId": at.run_id, "isThere": True}, notes=(f"{note} Replace it with --overwrite.",))
    stale = [each for each in found if each != place]
    if stale and files is None:
        raise UsageError(
            f"Run {at.run_id} is in another hour or a merged part, from which Spark Connect cannot remove it.",
            hint="Use another --run-id, or --master instead of --remote.",
        )
    fleet = _ask(access, options)
    rows = [row for group in fleet.groups for row in progress_rows(group, at, at.run_id, fleet.clusters)]
    written: tuple[WrittenTable, ...] = ()
    notes = [] if rows else ["No group has offsets or a subscription, so nothing was written or replaced."]
    if rows:
        write_rows(spark, path, rows)
        written = (WrittenTable(path, len(rows)),)
        if stale and files is not None:
            drop_run(spark, files, path, at.run_id, stale)
    sums = [summary_row(each.group, each.state.value, each.rows, each.hidden_anywhere) for each in fleet.groups]
    return JobResult(
        rows=most_behind(sums, options.limit or _LIMIT),
        row_count=len(sums),
        facts={
            "runId": at.run_id,
            "isThere": False,
            "isReplaced": bool(found and rows),
            **time_fields("snapshotTimestamp", at.at_ms),
            "groupCount": len(sums),
            "queueCount": len(rows),
        },
        written=written,
        notes=tuple(notes),
        failures=fleet.failures,
    )


def _ask(access: Access, options: JobOptions) -> FleetProgress:
    async def ask() -> FleetProgress:
        # Reading a fleet takes longer than the timeout of a command, which limits each attempt instead.
        async with await access.connect(open_ended=True) as client:
            return await fetch_fleet_progress(client, options.groups, options.topics)

    return asyncio.run(ask())


def _take_recordings(spark: SparkSession, path: str, options: JobOptions) -> JobResult:
    samples = {sample_run(each): each for each in read_samples(options)}
    by_hour: dict[Hour, list[tuple[SnapshotRun, RecordedSample]]] = {}
    for at, recorded in samples.items():
        by_hour.setdefault(hour_of(at.at_ms), []).append((at, recorded))
    there = find_run_ids(spark, path, by_hour)
    rows: list[tuple[Any, ...]] = []
    new_count = 0
    for _, found in sorted(by_hour.items()):
        new = [(at, recorded) for at, recorded in found if at.run_id not in there]
        part = recording_part(at.run_id for at, _ in new)
        rows += [row for _, recorded in new for row in sample_rows(recorded, part)]
        new_count += len(new)
    if rows:
        write_rows(spark, path, rows)
    sums = _last_sums(samples.values())
    partial_count = sum(bool(recorded.sample.failures) for recorded in samples.values())
    notes = []
    if new_count < len(samples):
        notes.append(f"Already in the table: {len(samples) - new_count} of {counted(len(samples), 'sample')}.")
    if partial_count:
        partial = counted(partial_count, "sample", "is")
        notes.append(f"{partial} incomplete: some brokers or members did not answer then.")
    return JobResult(
        rows=most_behind(sums, options.limit or _LIMIT),
        row_count=len(sums),
        facts={
            "recordingCount": len(options.recordings),
            "sampleCount": len(samples),
            "newSampleCount": new_count,
            "isThere": new_count == 0,
            "groupCount": len(sums),
            "queueCount": sum(row["queueCount"] for row in sums),
        },
        written=(WrittenTable(path, len(rows)),) if rows else (),
        notes=tuple(notes),
    )


def read_samples(options: JobOptions) -> Iterator[RecordedSample]:
    """Yield the samples of the selected groups in all recordings; each with all its topics, because it is one run.

    Raises NotFoundError for a missing file, and UsageError for an invalid line or for groups that no recording has.
    """
    recorded_groups: set[str] = set()
    for name in options.recordings:
        try:
            with gzip.open(name) if name.endswith(".gz") else Path(name).open("rb") as lines:
                for recorded in read_recording(lines, name):
                    recorded_groups.add(recorded.sample.group)
                    if not options.groups or matching(options.groups, [recorded.sample.group]):
                        yield recorded
        except FileNotFoundError:
            raise NotFoundError("File", name) from None
        except (OSError, EOFError) as error:
            reason = getattr(error, "strerror", None) or "it is not a complete gzip file"
            raise UsageError(f"Cannot read {name}: {reason}.") from None
    lacking = [wanted for wanted in options.groups if not matching([wanted], recorded_groups)]
    hint = "Name groups of the recording, or omit --group."
    require_fit("The recording", "group", recorded_groups, lacking, hint=hint)


def _last_sums(samples: Iterable[RecordedSample]) -> list[dict[str, Any]]:
    """Summarise each group by its last sample."""
    last: dict[tuple[str, str], RecordedSample] = {}
    for recorded in sorted(samples, key=lambda each: each.sample.at_ms):
        last[recorded.cluster or "", recorded.sample.group] = recorded
    return [summary_row(each.sample.group, each.sample.state.value, sample_progress(each)) for each in last.values()]


JOB = Job(
    name="snapshot",
    takes=frozenset({"tables", "groups", "topics", "run_id", "overwrite", "recordings", "compact"}),
    needs=frozenset({"tables"}),
    asks_cluster=asks_cluster,
    check=check,
    look=look,
    run=run,
    fields=(
        ReportField("group", "GROUP"),
        ReportField("state", "STATE"),
        ReportField("queueCount", "QUEUES", ValueKind.NUMBER),
        ReportField("lag", "LAG", ValueKind.NUMBER),
        ReportField("lagAtLeast", "LAG-AT-LEAST", ValueKind.NUMBER, is_wide=True),
        ReportField("unknownCount", "UNKNOWN", ValueKind.NUMBER),
    ),
)
