"""Runs the command line on a pseudo-terminal: what it writes, keys that it gets, and the state that it leaves."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
# For a condition: only what never happens waits so long.
_DEADLINE_S = 120.0


class Terminal:
    """A terminal with one running rmqctl."""

    def __init__(self, words: tuple[str, ...], size: tuple[int, int], env: dict[str, str]) -> None:
        self._own, self._its = os.openpty()
        self.resize(*size)
        self._before = self._state()
        # pytest-xdist sets COLUMNS for its workers.
        outer = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rmqctl", *words],
            stdin=self._its, stdout=self._its, stderr=self._its, env={**outer, "TERM": "xterm-256color", **env},
        )  # fmt: skip
        self.written = ""

    def resize(self, columns: int, lines: int) -> None:
        """Set the size; a program that runs is not notified."""
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Send keys, all at once, and forget what was written before."""
        self.written = ""
        os.write(self._own, keys.encode())

    def wait_for(self, text: str) -> str:
        """Wait until a text was written since the last keys; return what was written, without escape sequences."""
        until_s = time.monotonic() + _DEADLINE_S
        while text not in (plain := _SEQUENCE.sub("", self.written)):
            assert time.monotonic() < until_s, f"{text!r} was not written: {plain}"
            assert self._read(1.0) or self.process.poll() is None, f"it ended without {text!r}: {plain}"
        return plain

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        until_s = time.monotonic() + _DEADLINE_S
        while self.process.poll() is None:
            assert time.monotonic() < until_s, f"it did not end: {self.written}"
            self._read(0.1)
        while self._read(0.0):
            pass
        return self.process.returncode

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal is as the program found it: its settings, the screen, the cursor."""
        shows = self.written.rfind("\x1b[?1049l") >= self.written.rfind("\x1b[?1049h")
        return (
            self._state() == self._before
            and shows
            and self.written.rfind("\x1b[?25h") >= self.written.rfind("\x1b[?25l")
        )

    def close(self) -> None:
        """End the program, if need be."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._own)
        os.close(self._its)

    def _state(self) -> Any:
        return termios.tcgetattr(self._its)

    def _read(self, for_s: float) -> bool:
        ready, _, _ = select.select([self._own], [], [], for_s)
        if ready:
            self.written += os.read(self._own, 1 << 16).decode(errors="replace")
        return bool(ready)


@contextmanager
def on_terminal(*words: str, size: tuple[int, int] = (80, 24), **env: str) -> Iterator[Terminal]:
    """Run rmqctl on a terminal."""
    terminal = Terminal(words, size, env)
    try:
        yield terminal
    finally:
        terminal.close()
