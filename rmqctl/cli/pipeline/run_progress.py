"""Progress of the jobs of a run, on stderr: only on a terminal, and only after a second."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rmqctl.cli.output.text import may_redraw, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from rmqctl.pipeline.jobs.definition import Job
    from rmqctl.pipeline.run import JobProgress

_AFTER_S = 1.0


class RunProgress:
    """One line: the job, its tasks, the rows that it has read, and rows per second."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_shown = may_redraw(is_wanted=is_wanted)
        self._begun_s = time.monotonic()
        self._job_begun_s = self._begun_s
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pause()

    def pause(self) -> None:
        """Remove the line; the next call of show() restores it."""
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def show(self, job: Job | None, step: JobProgress | None) -> None:
        """Show the current job, None while Spark starts, and its progress."""
        if not self._is_shown:
            return
        if step is None:
            self._job_begun_s = time.monotonic()
        elif time.monotonic() - self._begun_s < _AFTER_S:
            return
        if self._bar is None:
            self._bar = self._start()
        progress, task = self._bar
        what = "Starting Spark" if job is None else job.name
        if step is None:
            progress.update(task, description=printable(what), completed=0, total=None, said="")
        else:
            progress.update(
                task,
                description=printable(what),
                completed=step.done_count,
                total=step.task_count,
                said=self._said(step),
            )

    def _said(self, step: JobProgress) -> str:
        tasks = f"{step.done_count}/{step.task_count} tasks"
        if step.row_count is None:
            return tasks
        rate = step.row_count / max(time.monotonic() - self._job_begun_s, 0.001)
        return f"{tasks}, {step.row_count:,} rows, {rate:,.0f}/s"

    def _start(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        # While Spark starts, file descriptor 2 is a file.
        terminal = os.fdopen(os.dup(2), "w")
        progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(bar_width=20),
            TextColumn("{task.fields[said]}", markup=False), TimeElapsedColumn(),
            console=Console(file=terminal, force_terminal=True, no_color=bool(os.environ.get("NO_COLOR"))),
            transient=True, refresh_per_second=4,
        )  # fmt: skip
        progress.start()
        return progress, progress.add_task("", total=None, said="")
