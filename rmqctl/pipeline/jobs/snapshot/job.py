"""The job `snapshot`: writes the offsets of all groups at one moment, or those of recordings, to a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rmqctl.admin.offsets.fleet import FleetProgress, fetch_fleet_progress, require_groups
from rmqctl.admin.offsets.reading import GroupProgress
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, UsageError
from rmqctl.model.failure import Failure
from rmqctl.net.clock import SystemClock
from rmqctl.observe.recording import RecordedSample
from rmqctl.observe.recording_files import read_recordings
from rmqctl.observe.sampled_progress import sample_progress
from rmqctl.pipeline.asking import ask_cluster
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult, ReportField, ValueKind, WrittenTable
from rmqctl.pipeline.tables.delta import Table, TableChange, TableVersion
from rmqctl.pipeline.tables.hours import day_of
from rmqctl.pipeline.tables.marks import whole_mark
from rmqctl.pipeline.tables.schemas import OFFSET_SNAPSHOTS
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted, listed

from .gone import GroupTopic, find_gone, is_whole, seen_before, with_places, with_unlisted_queues
from .rows import (
    SnapshotRun,
    arrow_rows,
    check_run_id,
    default_run_id,
    find_runs,
    gone_row,
    gone_summary,
    most_behind,
    progress_rows,
    sample_rows,
    sample_run,
    summary_row,
)
from .writing import lacking_count, write_run, writer_of

_LIMIT = 20


def check(options: JobOptions) -> None:
    """Raise UsageError for options that cannot be combined, and when nothing names the cluster."""
    options.label()
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


def run(spark: object, options: JobOptions) -> JobResult:  # noqa: ARG001 -- the rows are in this process
    """Take a snapshot or import recordings; a session is not used.

    A run that is already in the table stays unchanged; `overwrite` replaces it. Raises the errors of the cluster, and
    RmqctlError when the table cannot be written.
    """
    table = Table(options.tables, OFFSET_SNAPSHOTS)
    if options.recordings:
        return _take_recordings(table, options)
    if options.access is None:
        raise UsageError("A snapshot needs a cluster (-n) or a recording (--recording).")
    return _take_snapshot(table, options, options.access)


def _take_snapshot(table: Table, options: JobOptions, access: Access) -> JobResult:
    label, version = options.label(), table.version()
    if options.run_id is not None and not options.overwrite and lacking_count(version, label, options.run_id) == 0:
        return _there_already(label, options.run_id)
    # Not the start of the command: it may have waited for Spark, or for the jobs before this one.
    begun_ms = SystemClock().now_ms()
    at = SnapshotRun(options.run_id or default_run_id(begun_ms), begun_ms)
    before = seen_before(version, label, begun_ms, at.run_id)
    try:
        fleet = with_unlisted_queues(_ask(access, options), before)
    except NotFoundError as error:
        raise with_places(error, before) from None
    gone = find_gone(before, fleet, options.groups, options.topics)
    queues = [row for group in fleet.groups for row in progress_rows(group, at, label, fleet)]
    rows = [*queues, *(gone_row(each, at, label) for each in gone)]
    is_all = is_whole(fleet) and not options.groups and not options.topics
    marks = {whole_mark(label): begun_ms} if is_all else {}
    # Only a run whose id was given is taken again.
    lacking = 0 if options.run_id is None else len(fleet.failures)
    done = None
    if rows:
        done = write_run(table, rows, label, at, overwrite=options.overwrite, lacking=lacking, marks=marks)
        if not done.is_written:
            return _there_already(label, at.run_id, fleet.failures if done.lacking_before else ())
    notes = [*_gone_notes(gone), *_left_notes(fleet)]
    if not rows:
        notes.append("No group has offsets or a subscription, so nothing was written or replaced.")
    sums = [_summary(each, gone) for each in fleet.groups]
    sums += [gone_summary(each.group) for each in gone if each.topic is None]
    times_ms = [row.at_ms for group in fleet.groups for row in group.rows if row.at_ms is not None]
    return JobResult(
        rows=most_behind(sums, options.limit or _LIMIT),
        row_count=len(sums),
        facts={
            "clusterLabel": label,
            "runId": at.run_id,
            "isThere": False,
            "isReplaced": done is not None and done.lacking_before is not None,
            **time_fields("firstAnswerTimestamp", min(times_ms, default=None)),
            **time_fields("lastAnswerTimestamp", max(times_ms, default=None)),
            "groupCount": len(fleet.groups),
            "queueCount": len(queues),
            "goneGroups": [each.group for each in gone if each.topic is None],
            "isWhole": is_all,
        },
        written=(WrittenTable(table.root, len(rows)),) if rows else (),
        notes=tuple(notes),
        failures=fleet.failures,
    )


def _summary(progress: GroupProgress, gone: Sequence[GroupTopic]) -> dict[str, Any]:
    """Return a group's row of the result; the lag is that of the topics that it consumes."""
    consumed = [row for row in progress.rows if row.mq.topic not in progress.left]
    return {
        **summary_row(progress.group, progress.state.value, consumed, progress.hidden_anywhere),
        "leftTopics": sorted(progress.left),
        "goneTopics": [each.topic for each in gone if each.group == progress.group and each.topic is not None],
    }


def _gone_notes(gone: Sequence[GroupTopic]) -> list[str]:
    groups = [each.group for each in gone if each.topic is None]
    topics = [f"{each.topic} ({each.group})" for each in gone if each.topic is not None]
    notes = []
    if groups:
        notes.append(f"Gone since the last snapshot: {counted(len(groups), 'group')}: {listed(groups)}.")
    if topics:
        what = counted(len(topics), "topic")
        notes.append(f"Without offsets and subscription since the last snapshot: {what}: {listed(topics)}.")
    return notes


def _left_notes(fleet: FleetProgress) -> list[str]:
    notes = []
    names = [progress.group for progress in fleet.groups]
    unconfigured = [] if fleet.configured is None else [name for name in names if name not in fleet.configured]
    if unconfigured:
        notes.append(f"Only offsets are left, no broker has the configuration: {listed(unconfigured)}.")
    left = [f"{topic} ({progress.group})" for progress in fleet.groups for topic in sorted(progress.left)]
    if left:
        notes.append(f"No member subscribes any more, so the lag is not counted: {listed(left)}.")
    return notes


def _there_already(label: str, run_id: str, failures: Sequence[Failure] = ()) -> JobResult:
    """Return the result of a run that stays as it was; with `failures`, it is incomplete, and so is the new one."""
    note = f"Run {run_id} of {label} is already in the table, so nothing was written. Replace it with --overwrite."
    if failures:
        note = f"Run {run_id} of {label} is already in the table, and no less complete, so nothing was written."
    facts = {"clusterLabel": label, "runId": run_id, "isThere": True}
    return JobResult(facts=facts, notes=(note,), failures=tuple(failures))


def _ask(access: Access, options: JobOptions) -> FleetProgress:
    async def read(client: Client) -> FleetProgress:
        return await fetch_fleet_progress(client, options.groups, options.topics)

    if options.ask is not None:
        found: FleetProgress = options.ask(read)
        return found
    # Reading a fleet takes longer than the timeout of a command, which limits each attempt instead.
    return ask_cluster(access, read, open_ended=True)


def _take_recordings(table: Table, options: JobOptions) -> JobResult:
    label = options.label()
    samples = {sample_run(each): each for each in read_recordings(options.recordings, options.groups)}
    days = {day_of(at.at_ms) for at in samples}
    new: list[RecordedSample] = []
    row_count = 0

    def plan(version: TableVersion | None) -> TableChange | None:
        nonlocal new, row_count
        there = find_runs(version, label, {at.run_id for at in samples}, days)
        new = [recorded for at, recorded in samples.items() if at.run_id not in there]
        rows = [row for recorded in new for row in sample_rows(recorded, label)]
        row_count = len(rows)
        return TableChange(arrow_rows(rows)) if rows else None

    table.change(plan, writer=writer_of(label))
    sums = _last_sums(samples.values())
    partial_count = sum(bool(recorded.sample.failures) for recorded in samples.values())
    notes = []
    if len(new) < len(samples):
        notes.append(f"Already in the table: {len(samples) - len(new)} of {counted(len(samples), 'sample')}.")
    if partial_count:
        partial = counted(partial_count, "sample", "is")
        notes.append(f"{partial} incomplete: some brokers or members did not answer then.")
    return JobResult(
        rows=most_behind(sums, options.limit or _LIMIT),
        row_count=len(sums),
        facts={
            "clusterLabel": label,
            "recordingCount": len(options.recordings),
            "sampleCount": len(samples),
            "newSampleCount": len(new),
            "isThere": not new,
            "groupCount": len(sums),
            "queueCount": sum(row["queueCount"] for row in sums),
        },
        written=(WrittenTable(table.root, row_count),) if row_count else (),
        notes=tuple(notes),
    )


def _last_sums(samples: Iterable[RecordedSample]) -> list[dict[str, Any]]:
    """Summarise each group by its last sample."""
    last: dict[tuple[str, str], RecordedSample] = {}
    for recorded in sorted(samples, key=lambda each: each.sample.at_ms):
        last[recorded.cluster or "", recorded.sample.group] = recorded
    return [summary_row(each.sample.group, each.sample.state.value, sample_progress(each)) for each in last.values()]


JOB = Job(
    name="snapshot",
    takes=frozenset({"tables", "groups", "topics", "cluster_label", "run_id", "overwrite", "recordings"}),
    needs=frozenset({"tables"}),
    asks_cluster=asks_cluster,
    check=check,
    look=look,
    run=run,
    needs_spark=False,
    fields=(
        ReportField("group", "GROUP"),
        ReportField("state", "STATE"),
        ReportField("queueCount", "QUEUES", ValueKind.NUMBER),
        ReportField("lag", "LAG", ValueKind.NUMBER),
        ReportField("lagAtLeast", "LAG-AT-LEAST", ValueKind.NUMBER, is_wide=True),
        ReportField("unknownCount", "UNKNOWN", ValueKind.NUMBER),
        ReportField("leftTopics", "LEFT TOPICS", is_wide=True),
        ReportField("goneTopics", "GONE TOPICS", is_wide=True),
    ),
)
