"""What is shown of a job next to its rows: failures, notes, what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqctl.model.failure import Failure
from rmqctl.text.durations import short_duration
from rmqctl.text.words import agreeing, counted

if TYPE_CHECKING:
    from rmqctl.pipeline.jobs.definition import JobResult
    from rmqctl.pipeline.run import JobRun


def failures_of(ran: JobRun) -> list[Failure]:
    """Return what a job could not do: all of it, or parts of the cluster that were not read."""
    if ran.error is not None:
        return [Failure(None, f"job {ran.job.name}", ran.error)]
    return list(ran.outcome.failures) if ran.outcome is not None else []


def job_item(ran: JobRun) -> dict[str, Any]:
    """Return a job in JSON, without its rows."""
    outcome = ran.outcome
    return {
        "job": ran.job.name,
        "tookMs": ran.took_ms,
        "rowCount": None if outcome is None else outcome.row_count,
        "written": [
            {"path": written.path, "rowCount": written.row_count} for written in (outcome.written if outcome else ())
        ],
        "facts": dict(outcome.facts) if outcome is not None else {},
        "notes": [*outcome.notes, *outcome.warnings] if outcome is not None else [],
        "isDone": ran.error is None,
    }


def notes_of(ran: JobRun) -> list[str]:
    """Return what the job wrote, and its notes."""
    outcome = ran.outcome
    if outcome is None:
        return []
    return [*(_written(ran, outcome)), *outcome.notes]


def warnings_of(ran: JobRun) -> list[str]:
    """Return the job's warnings, and that of rows that are left out."""
    return [] if ran.outcome is None else [*ran.outcome.warnings, *cut_of(ran)]


def cut_of(ran: JobRun) -> list[str]:
    """Return a warning for rows that are left out, unless a table has all of them."""
    outcome = ran.outcome
    if outcome is None:
        return []
    shown_count = len(outcome.rows)
    shown = f"of {ran.job.name} {agreeing(shown_count, 'is')} shown (--limit)."
    if outcome.is_cut:
        return [f"Only {counted(shown_count, 'row')} {shown} There are more."]
    if outcome.row_count is None or outcome.written or shown_count >= outcome.row_count:
        return []
    return [f"Only {shown_count} of {counted(outcome.row_count, 'row')} {shown}"]


def _written(ran: JobRun, outcome: JobResult) -> list[str]:
    took = f"in {short_duration(ran.took_ms)}"
    said = []
    for written in outcome.written:
        what = "" if written.row_count is None else f"{counted(written.row_count, 'row')} to "
        said.append(f"{ran.job.name} wrote {what}{written.path} {took}.")
    return said or [f"{ran.job.name} finished {took}."]
