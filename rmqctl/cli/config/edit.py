"""Edits the configuration file in one step; comments and order are kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqctl.errors import RmqctlError, UsageError

from .file import read_config
from .place import config_path

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_ATTEMPTS = 5


def change_config(change: Callable[[TOMLDocument], None]) -> Path:
    """Read the file, change it, write it; return its path. Starts over if the file changes meanwhile.

    `change` is called with the document (empty if there is no file), then with the same data as plain values; both
    results must agree. Raises what `change` raises, UsageError if the file cannot be read, RmqctlError if it cannot be
    written.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    path = config_path()
    try:
        target = path.resolve()  # change a link's target, not the link
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(target.parent):
            for _ in range(_ATTEMPTS):
                before = _read(target)
                if before is not None:
                    read_config()  # raises if the file is invalid
                text = (before or b"").decode()
                document = tomlkit.parse(text)
                change(document)
                after = tomlkit.dumps(document)
                _require_meant(path, text, change, after)
                if _replace(target, before, after.encode()):
                    return path
    except (TOMLKitError, RuntimeError, OSError) as error:
        if isinstance(error, TOMLKitError):
            reason = "it cannot be changed without losing its comments"
        elif isinstance(error, OSError):
            reason = (error.strerror or str(error)).lower()
        else:
            reason = "its links form a cycle"
        raise RmqctlError(f"Cannot write the configuration file {path}: {reason}.") from None
    raise UsageError(f"Another program is changing the configuration file {path}.", hint="Try again.")


def _require_meant(path: Path, before: str, change: Callable[[Any], None], after: str) -> None:
    """Compare the new text with the same change of plain values. Raises RmqctlError if they differ.

    tomlkit moves settings of dotted keys (contexts.a.tls.ca = "x") into other contexts, or loses them.
    """
    import tomllib

    meant = tomllib.loads(before)
    change(meant)
    try:
        is_meant = _without_empty(tomllib.loads(after)) == _without_empty(meant)
    except tomllib.TOMLDecodeError:
        is_meant = False
    if not is_meant:
        raise RmqctlError(
            f"The configuration file {path} was not changed: the edit would alter other settings.",
            hint="Write each context as a table, [contexts.NAME], without dotted keys, or edit the file manually.",
        )


def _without_empty(data: dict[str, Any]) -> dict[str, Any]:
    """Return a file's values without an empty table of contexts, which tomlkit does not write."""
    return {key: value for key, value in data.items() if key != "contexts" or value != {}}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Allow only one rmqctl at a time to change files of a folder."""
    from rmqctl.net.file_lock import lock_file, require_file_locks

    require_file_locks("Changing the configuration file")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock_file(descriptor, waits=True)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _replace(path: Path, before: bytes | None, after: bytes) -> bool:
    """Replace a file in one step; return False if its content is no longer `before`.

    Editors ignore the lock, so only the content shows that one wrote in the meantime.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # readable by the user only (0600)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            new.chmod(path.stat().st_mode & 0o7777)
        if _read(path) != before:
            new.unlink()
            return False
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return True
