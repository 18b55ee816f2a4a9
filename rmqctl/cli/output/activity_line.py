"""A line on stderr while something takes over a second and cannot show its progress."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

from rmqctl.cli.output import text

_AFTER_S = 1.0
_STEP_S = 1.0


class ActivityLine:
    """Shows what is being done and for how long, until another line is written."""

    def __init__(self, what: str, *, is_wanted: bool) -> None:
        self._what = text.printable(what)
        self._is_shown = text.may_redraw(is_wanted=is_wanted)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if self._is_shown:
            text.end_waiting()
            text.set_waiting(self._stop)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown and not self._is_over.is_set():
            text.end_waiting()

    def _stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        began_s = time.monotonic()
        if self._is_over.wait(_AFTER_S):
            return
        while True:
            self._write(f"\r{self._what}, {time.monotonic() - began_s:.0f} s\x1b[K")
            if self._is_over.wait(_STEP_S):
                break
        self._write("\r\x1b[K")

    def _write(self, line: str) -> None:
        try:
            sys.stderr.write(line)
            sys.stderr.flush()
        except (OSError, ValueError):
            self._is_over.set()
