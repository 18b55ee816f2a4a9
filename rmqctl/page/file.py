"""The file that a page is written to: checked before the work starts, replaced atomically at the end."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from rmqctl.errors import RmqctlError, UsageError


def require_file(option: str, file: str) -> None:
    """Raise UsageError for a file that can be neither created nor replaced."""
    try:
        path = Path(file).resolve()
        if file == "-":
            reason = "it is written to a file only"
        elif path.exists() and not path.is_file():
            reason = "it is a folder" if path.is_dir() else "it is not a regular file"
        elif not path.parent.is_dir():
            reason = f"folder {path.parent} does not exist"
        elif not os.access(path.parent, os.W_OK):
            reason = f"folder {path.parent} is not writable"
        else:
            return
    except (OSError, RuntimeError, ValueError) as error:  # for example a name that is too long, or a cycle of links
        reason = (getattr(error, "strerror", None) or str(error)).lower()
    raise UsageError(
        f"Cannot write {option} {file}: {reason}.", hint="Name a file in a folder that exists and is writable."
    )


def replace_file(path: str, text: str) -> None:
    """Write a file atomically: a concurrent reader sees either the old content or the new one.

    Raises RmqctlError when the file cannot be written.
    """
    target = Path(path).resolve()
    half = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        with half.open("xb") as file:
            file.write(text.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            half.chmod(target.stat().st_mode & 0o777)
        half.replace(target)
    except OSError as error:
        raise RmqctlError(f"Cannot write {path}: {(error.strerror or str(error)).lower()}.") from None
    finally:
        half.unlink(missing_ok=True)
