"""Standard output whose errors are distinct from those of files and connections."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TextIO, cast


class OutputError(OSError):
    """The output could not be written."""


class _Output:
    """A text stream that raises OutputError, but BrokenPipeError if the reader has closed the pipe: no error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.errno, error.strerror or str(error)) from error

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.errno, error.strerror or str(error)) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Closed(_Output):
    """Replaces a closed standard output (>&-), where text would be lost."""

    def write(self, text: str) -> int:
        if text:
            raise OutputError("standard output is closed")
        return 0


def guarded(stdout: TextIO | None) -> TextIO:
    """Return a stream that replaces standard output, also a closed one (None)."""
    if stdout is not None:
        return cast("TextIO", _Output(stdout))
    # It occupies the descriptor of standard output, which the first connection would otherwise get.
    return cast("TextIO", _Closed(open(os.devnull, "w")))  # noqa: PTH123 -- open until the process ends
