"""Where what this user did is kept: the journal and the locks of groups."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from rmqctl.errors import UsageError

STATE_HINT = "Name another folder in RMQCTL_STATE."


def state_folder(*, create: bool = True) -> Path:
    """Return the folder (RMQCTL_STATE, else the user's), made for this user alone; who only reads does not create it.

    Raises UsageError for one that others may write to: what is undone later is what its journal says.
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
            raise UsageError(f"{folder} is no folder.", hint=STATE_HINT)
        if not hasattr(os, "geteuid"):
            return folder  # Windows: rights are not in its mode
        if status.st_uid != os.geteuid():
            raise UsageError(f"{folder} belongs to somebody else.", hint=STATE_HINT)
        if stat.S_IMODE(status.st_mode) & 0o077:
            if given:
                # It may be one that others share, such as /tmp.
                raise UsageError(f"{folder} is open to others.", hint=f"chmod 700 {folder}, or name another folder.")
            folder.chmod(0o700)
    except OSError as error:
        raise unusable(folder, error) from None
    return folder


def host_name() -> str:
    """Return this machine's name, as the journal has it."""
    return os.uname().nodename if hasattr(os, "uname") else socket.gethostname()


def unusable(path: Path, error: OSError) -> UsageError:
    """Return what to raise for a file or folder that the system refuses."""
    return UsageError(f"{path} can't be used: {(error.strerror or str(error)).lower()}.", hint=STATE_HINT)
