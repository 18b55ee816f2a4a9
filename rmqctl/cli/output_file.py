"""Writes a file that a user names: in one step, for that user alone, never over another one unless told to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rmqctl.errors import RmqctlError, UsageError


def new_file(option: str, file: str, *, is_forced: bool = False, may_force: bool = False) -> Path:
    """Return the file to write. Raises UsageError for one that is not to be written."""
    path = Path(file)
    try:
        if is_forced:
            path = path.resolve()  # what a link leads to is replaced, and the link stays
        if os.path.lexists(path) and not is_forced:
            raise _there_already(path, may_force=may_force)
        if path.exists() and not path.is_file():
            # A rename would put a file in the place of a device.
            raise UsageError(f"{option} {file} is no regular file.")
        if not path.parent.is_dir():
            raise UsageError(f"{option} {file}: there is no folder {path.parent}.")
    except (OSError, RuntimeError, ValueError) as error:  # such as a name that is too long, a circle of links
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"{option} {file} can't be written: {reason}.") from None
    return path


def _there_already(path: Path, *, may_force: bool) -> UsageError:
    return UsageError(
        f"{path} is there already.", hint="Use --force to replace it." if may_force else "Name a new file."
    )


def write_file(path: Path, text: str, *, is_forced: bool = False, may_force: bool = False) -> None:
    """Write a file in one step: nobody sees a part of it. Raises UsageError for one that has come meanwhile."""
    with writing(path, is_forced=is_forced, may_force=may_force) as out:
        out.write(text.encode())


@contextmanager
def writing(path: Path, *, is_forced: bool = False, may_force: bool = False) -> Iterator[BinaryIO]:
    """Give a new file to write into, which gets its name in one step at the end; none is left of what fails.

    Raises UsageError for a file that has come meanwhile, RmqctlError for one that can't be written.
    """
    import tempfile

    new: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".rmqctl-")  # for the user alone (0600)
        new = Path(name)
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if is_forced:
            new.replace(path)
        else:
            _put(new, path)
    except FileExistsError:
        raise _there_already(path, may_force=may_force) from None
    except OSError as error:
        raise RmqctlError(f"{path} can't be written: {(error.strerror or str(error)).lower()}.") from None
    finally:
        if new is not None:
            new.unlink(missing_ok=True)


def _put(new: Path, path: Path) -> None:
    """Give a file its name, unless there is one by that name; a rename would replace it. Raises OSError."""
    try:
        path.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError:
        # A file system that knows no links.
        if os.path.lexists(path):
            raise FileExistsError from None
        new.replace(path)
