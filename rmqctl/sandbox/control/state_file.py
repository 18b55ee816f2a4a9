"""The running sandboxes of this user, for other commands: one file each, locked while the sandbox runs.

The lock distinguishes a running sandbox from the files of a killed one: the system always frees it with the process,
and a later process with the same id does not hold it.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from rmqctl.errors import AlreadyRunningError, UsageError
from rmqctl.net.file_lock import lock_file, require_file_locks

_PREFIX = "sandbox-"
# The longest path that fits into sockaddr_un on every system.
_MAX_SOCKET_PATH_BYTES = 103
_POLL_S = 0.02
# A search for sandboxes holds a lock for a moment; a lock that is held longer belongs to a sandbox.
_LOCK_S = 0.25


class RunningSandbox(Struct, frozen=True):
    """How to reach a running sandbox. `port` is the port of its name server, which identifies it."""

    port: int
    pid: int
    namesrv: str
    socket: str


def state_folder() -> Path:
    """Return the folder of all files; create it for this user alone. Raises UsageError if it is unsafe or unusable."""
    require_file_locks("Running a sandbox for other commands")
    if given := os.environ.get("RMQCTL_RUNTIME"):
        folder = Path(given)
    elif session := os.environ.get("XDG_RUNTIME_DIR"):
        folder = Path(session) / "rmqctl"
    else:
        # Not platformdirs' runtime folder: without a session it is in /tmp, where others could have created it.
        from platformdirs import user_state_path

        folder = user_state_path("rmqctl")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.getuid():
            raise UsageError(f"{folder} belongs to another user.", hint="Set RMQCTL_RUNTIME to another folder.")
        if stat.S_IMODE(status.st_mode) & 0o077:
            if given:
                # It may be a shared folder, for example /tmp.
                raise UsageError(f"{folder} is open to others.", hint=f"Run chmod 700 {folder}, or use another folder.")
            folder.chmod(0o700)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{folder} cannot be used: {reason}.", hint="Set RMQCTL_RUNTIME to another folder.") from None
    return folder


def log_path(port: int) -> Path:
    """Return the path where a background sandbox writes its warnings."""
    return state_folder() / f"{_PREFIX}{port}.log"


class StateFile:
    """The file of a sandbox that runs in this process. Raises AlreadyRunningError when another one has the port."""

    def __init__(self, port: int) -> None:
        self._port = port
        folder = state_folder()
        self._path = folder / f"{_PREFIX}{port}.json"
        self._descriptor = _lock(self._path)
        os.truncate(self._descriptor, 0)
        self.socket_path = folder / f"{_PREFIX}{port}.sock"
        self._log_path = log_path(port)
        self._own_folder: Path | None = None
        if len(os.fsencode(self.socket_path)) > _MAX_SOCKET_PATH_BYTES:
            self._own_folder = Path(tempfile.mkdtemp(prefix="rmqctl-"))
            self.socket_path = self._own_folder / "control.sock"

    def publish(self, namesrv: str) -> None:
        """Write the file by which other commands find the sandbox."""
        running = RunningSandbox(self._port, os.getpid(), namesrv, str(self.socket_path))
        os.pwrite(self._descriptor, msgspec.json.encode(running), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket_path.unlink(missing_ok=True)
        _remove_empty(self._log_path)
        if self._own_folder is not None:
            self._own_folder.rmdir()
        # Last: waiting for the end means waiting for this.
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _lock(path: Path) -> int:
    until_s = time.monotonic() + _LOCK_S
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            lock_file(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            if time.monotonic() < until_s:
                time.sleep(_POLL_S)
                continue
            port = path.stem.removeprefix(_PREFIX)
            raise AlreadyRunningError(
                f"A sandbox is already running on port {port}.",
                hint="Use another --port, or stop it with rmqctl sandbox down.",
            ) from None
        if _is_still(descriptor, path):
            return descriptor
        os.close(descriptor)  # its owner removed it between the two calls


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def find_running(port: int | None = None) -> list[RunningSandbox]:
    """Return the running sandboxes, sorted by port, or the one on a port; remove the files of killed ones."""
    found = []
    for path in state_folder().glob(f"{_PREFIX}{'*' if port is None else port}.json"):
        running = _read(path)
        if running is not None:
            found.append(running)
    return sorted(found, key=lambda running: running.port)


def _read(path: Path) -> RunningSandbox | None:
    """Return the running sandbox, or None when none runs or it has not published its file yet."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        data = os.pread(descriptor, 65536, 0)
        running = _decode(data)
        try:
            lock_file(descriptor, is_shared=True)
        except BlockingIOError:
            return running
        if _is_still(descriptor, path):
            path.unlink(missing_ok=True)
            _remove_empty(path.with_suffix(".log"))
            if running is not None:
                _remove_socket(Path(running.socket), path.parent)
        return None
    finally:
        os.close(descriptor)


def _decode(data: bytes) -> RunningSandbox | None:
    try:
        return msgspec.json.decode(data, type=RunningSandbox)
    except msgspec.DecodeError:
        return None


def _remove_empty(log: Path) -> None:
    """Remove an empty log."""
    if log.is_file() and log.stat().st_size == 0:
        log.unlink(missing_ok=True)


def _remove_socket(path: Path, folder: Path) -> None:
    """Remove an abandoned socket, and its own folder if it has one."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        path.unlink()
        if path.parent != folder:
            path.parent.rmdir()
    except OSError:
        pass  # it was already removed, or never created


def wait_until_gone(running: RunningSandbox, timeout_s: float) -> bool:
    """Wait until a sandbox has ended; return whether it did in time."""
    until_s = time.monotonic() + timeout_s
    while running in find_running(running.port):
        if time.monotonic() >= until_s:
            return False
        time.sleep(_POLL_S)
    return True
