"""Writes a run of the job snapshot: once, but an incomplete run gives way to one that has more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rmqctl.pipeline.tables.conditions import any_of, of_cluster
from rmqctl.pipeline.tables.delta import Table, TableChange, TableVersion

from .rows import SnapshotRun, arrow_rows, find_runs


class WrittenRun(NamedTuple):
    """Whether a run was written, and how many answers the one lacked that the table had before; None without one."""

    is_written: bool
    lacking_before: int | None


def lacking_count(version: TableVersion | None, label: str, run_id: str) -> int | None:
    """Return how many answers a run of a cluster lacks, 0 for a complete one, None when the table has no such run."""
    if version is None or not find_runs(version, label, [run_id]):
        return None
    return version.mark(_mark(label, run_id)) or 0


def write_run(
    table: Table,
    rows: Sequence[tuple[Any, ...]],
    label: str,
    at: SnapshotRun,
    *,
    overwrite: bool,
    lacking: int = 0,
    marks: Mapping[str, int] = {},
) -> WrittenRun:
    """Write the rows of a run that lacks some answers. Raises RmqctlError.

    A run that the table has is replaced with `overwrite`, or when it lacks more. Otherwise it stays as it is.
    """
    made, mark = arrow_rows(rows), _mark(label, at.run_id)
    same_run = f"{of_cluster(label)} and {any_of('run_id', [at.run_id])}"
    before: int | None = None

    def plan(version: TableVersion | None) -> TableChange | None:
        nonlocal before
        before = lacking_count(version, label, at.run_id)
        if before is not None and not overwrite and lacking >= before:
            return None
        noted = {mark: lacking} if lacking or before else {}
        return TableChange(made, None if before is None else same_run, {**marks, **noted})

    is_written = table.change(plan, writer=writer_of(label))
    return WrittenRun(is_written, before)


def writer_of(label: str) -> str:
    """Return the name by which snapshots of one cluster exclude each other, so that none is there twice."""
    return f"snapshot of {label}"


def _mark(label: str, run_id: str) -> str:
    return f"lacking in run {run_id} of {label}"
