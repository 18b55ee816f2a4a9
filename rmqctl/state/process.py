"""How far the process is that makes a change, by what it has recorded."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from rmqctl.model.receipt import ChangeState, Who

from .folder import host_name


def change_state(ended_at_ms: int | None, host: str, pid: int, start: str | None) -> ChangeState:
    """Return the state of a change from its end time and its process; `start` is its process_start()."""
    if ended_at_ms is not None:
        return ChangeState.DONE
    if host != host_name() or not hasattr(os, "uname"):  # on Windows os.kill(pid, 0) would end the process
        return ChangeState.ELSEWHERE
    return ChangeState.RUNNING if _is_running(pid, start) else ChangeState.INTERRUPTED


def current_who(context: str | None) -> Who:
    """Return the user, host and process that make a change, for the journal."""
    return Who(user_name(), host_name(), os.getpid(), context)


def user_name() -> str:
    """Return the name of the user, or the number without a name."""
    try:
        return getpass.getuser()
    except (ImportError, OSError, KeyError):
        # No name in the environment, and no entry in a user database; Windows has neither a database nor a number.
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def process_start(pid: int) -> str | None:
    """Return when a process started, in the system's ticks; None on systems without /proc."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return words[19]


def _is_running(pid: int, start: str | None) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass  # it exists, and belongs to another user
    except (ProcessLookupError, OverflowError):
        return False
    # Process ids are reused: after a restart of the machine another process may have this one.
    start_now = process_start(pid)
    return start_now is None or start in (None, start_now)
