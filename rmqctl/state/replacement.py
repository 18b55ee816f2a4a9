"""Replaces small files in the state folder in one step, so that a reader or a crash never meets half of one."""

from __future__ import annotations

import os
from pathlib import Path

from .folder import unusable


def replace_file(path: Path, data: bytes) -> None:
    """Write a file for this user alone. Raises UsageError when the system refuses; the old file then remains."""
    new = path.with_suffix(f".{os.getpid()}")
    try:
        # A killed process with this id may have left the file: ids repeat, in containers at every start.
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise unusable(path, error) from None
