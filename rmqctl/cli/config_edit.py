"""Changes the configuration file: comments and order stay, and it is whole at every moment."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqctl.errors import RmqctlError, UsageError

from .config import read_config
from .config_place import config_path

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_ATTEMPTS = 5


def change_config(change: Callable[[TOMLDocument], None]) -> Path:
    """Read the file, change it, write it; return its path. A file that changes meanwhile is read again.

    `change` gets the document, an empty one when there is no file, and then the same as plain values, to compare what
    comes of both. Raises what it raises, UsageError for a file that can't be read, RmqctlError for one that can't be
    written.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    path = config_path()
    try:
        target = path.resolve()  # what a link leads to is changed, and the link stays
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(target.parent):
            for _ in range(_ATTEMPTS):
                before = _read(target)
                if before is not None:
                    read_config()  # says what is wrong with the file, if anything is
                text = (before or b"").decode()
                document = tomlkit.parse(text)
                change(document)
                after = tomlkit.dumps(document)
                _require_meant(path, text, change, after)
                if _replace(target, before, after.encode()):
                    return path
    except (TOMLKitError, RuntimeError, OSError) as error:
        if isinstance(error, TOMLKitError):
            reason = "it holds what can't be changed without losing its comments"
        elif isinstance(error, OSError):
            reason = (error.strerror or str(error)).lower()
        else:
            reason = "its links lead in a circle"
        raise RmqctlError(f"The configuration file {path} can't be written: {reason}.") from None
    raise UsageError(f"The configuration file {path} is being changed by somebody else.", hint="Try once more.")


def _require_meant(path: Path, before: str, change: Callable[[Any], None], after: str) -> None:
    """Make sure that the new text says what the change means, by the same change of plain values.

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
            f"The configuration file {path} is not changed: other settings would not stay as they are.",
            hint="Write each context as a table, [contexts.NAME], without dotted keys, or change it by hand.",
        )


def _without_empty(data: dict[str, Any]) -> dict[str, Any]:
    """Return a file's values without the table of all contexts where there are none: tomlkit does not write it."""
    return {key: value for key, value in data.items() if key != "contexts" or value != {}}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one rmqctl at a time change files of a folder."""
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
    """Put new content in place of a file in one step; False when it is no longer as it was before.

    An editor knows no lock of ours, so what it wrote in the meantime shows in the content only.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # for the user alone (0600)
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
