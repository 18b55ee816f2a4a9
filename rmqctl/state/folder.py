"""The user's state folder, with the journal, the ledgers and the locks."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from rmqctl.errors import UsageError

# The file of the journal in it.
JOURNAL = "journal.db"
STATE_HINT = "Name another folder in RMQCTL_STATE."


def state_folder(*, create: bool = True) -> Path:
    """Return the state folder (RMQCTL_STATE, else the user's), created for this user alone unless `create` is false.

    Raises UsageError for a folder that is open to other users: an undo relies on its journal.
    """
    given = os.environ.get("RMQCTL_STATE")
    if given:
        folder = Path(given).absolute()
    else:
        from platformdirs import user_state_path

        folder = user_state_path("rmqctl")
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not folder.exists():
            return folder
        status = folder.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{folder} is not a folder.", hint=STATE_HINT)
        if not hasattr(os, "geteuid"):
            return folder  # Windows: the mode does not contain the permissions
        if status.st_uid != os.geteuid():
            raise UsageError(f"{folder} belongs to another user.", hint=STATE_HINT)
        if stat.S_IMODE(status.st_mode) & 0o077:
            if given:
                # It may be a shared folder, such as /tmp.
                raise UsageError(
                    f"{folder} is open to other users.", hint=f"Run chmod 700 {folder}, or name another folder."
                )
            folder.chmod(0o700)
    except OSError as error:
        raise unusable(folder, error) from None
    return folder


def host_name() -> str:
    """Return this machine's name, as the journal stores it."""
    return os.uname().nodename if hasattr(os, "uname") else socket.gethostname()


def unusable(path: Path, error: OSError) -> UsageError:
    """Return the error for a file or folder that the system refuses."""
    return UsageError(f"Cannot use {path}: {(error.strerror or str(error)).lower()}.", hint=STATE_HINT)
