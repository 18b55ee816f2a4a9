"""Reads a file that a user names, or stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from rmqctl.errors import UsageError

# A larger file is certainly the wrong one.
_MAX_BYTES = 256 * 1024 * 1024


def read_input(option: str, path: str) -> bytes:
    """Return the content of a file, `-` for stdin. Raises UsageError."""
    try:
        if path == "-":
            if sys.stdin is None:
                raise UsageError(f"Cannot read {option} -: standard input is closed.")
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"Cannot read {option} {path}: {(error.strerror or str(error)).lower()}.") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{option} {path} is larger than {_MAX_BYTES // 1024**2} MiB.")
    return data
