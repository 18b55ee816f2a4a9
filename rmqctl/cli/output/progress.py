"""A progress bar on stderr: only on a terminal, and only when it takes over a second."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .text import end_waiting, may_redraw, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_AFTER_S = 1.0
_STEP_S = 0.1


class ScanProgress:
    """A bar that shows how much has been read; it is cleared at the end, so that only data remains."""

    def __init__(self, what: str, *, is_wanted: bool, with_rate: bool = False) -> None:
        self._what = what
        self._with_rate = with_rate
        self._is_shown = may_redraw(is_wanted=is_wanted)
        self._next_s = time.monotonic() + _AFTER_S
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar[0].stop()

    def show(self, done_count: int, total_count: int) -> None:
        """Update the bar; most calls do nothing."""
        if not self._is_shown or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _STEP_S
        if self._bar is None:
            self._bar = self._start()
        progress, task = self._bar
        progress.update(task, completed=done_count, total=total_count)
        if self._with_rate and (speed := progress.tasks[0].speed) is not None:
            progress.update(task, rate=f"{speed:,.0f}/s")
        progress.refresh()

    def _start(self) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR")))
        progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
            console=console, transient=True, auto_refresh=False,
        )  # fmt: skip
        end_waiting()
        progress.start()
        return progress, progress.add_task(printable(self._what), rate="")
