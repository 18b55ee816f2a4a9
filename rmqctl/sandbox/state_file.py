"""Which sandboxes of this user run, so that other commands find them: a file each, locked for as long as it runs.

The lock tells a sandbox from what one that was killed left behind: the system frees it with the process, whatever
happens, and a process that got the same number later does not hold it.
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
# What fits into sockaddr_un on every system that has one.
_MAX_SOCKET_PATH_BYTES = 103
_POLL_S = 0.02
# Who looks for sandboxes holds a lock for a moment; one that is held for longer is a sandbox's.
_LOCK_S = 0.25


class RunningSandbox(Struct, frozen=True):
    """How to reach a sandbox that runs. `port` is its name server's, by which it is known."""

    port: int
    pid: int
    namesrv: str
    socket: str


def state_folder() -> Path:
    """Return the folder of all files, made for this user alone. Raises UsageError for one that others may write to."""
    require_file_locks("Running a sandbox for other commands")
    if given := os.environ.get("RMQCTL_RUNTIME"):
        folder = Path(given)
    elif session := os.environ.get("XDG_RUNTIME_DIR"):
        folder = Path(session) / "rmqctl"
    else:
        # Not platformdirs' runtime folder: without a session it lies in /tmp, where others could have made it before.
        from platformdirs import user_state_path

        folder = user_state_path("rmqctl")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.getuid():
            raise UsageError(f"{folder} belongs to somebody else.", hint="Name another folder in RMQCTL_RUNTIME.")
        if stat.S_IMODE(status.st_mode) & 0o077:
            if given:
                # It may be one that others share, such as /tmp.
                raise UsageError(f"{folder} is open to others.", hint=f"chmod 700 {folder}, or name another folder.")
            folder.chmod(0o700)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{folder} can't be used: {reason}.", hint="Name another folder in RMQCTL_RUNTIME.") from None
    return folder


def log_path(port: int) -> Path:
    """Return where a sandbox that runs in the background writes its warnings."""
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
        """Let others find the sandbox."""
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
        # Last: whoever waits for the end waits for this.
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
                f"A sandbox runs on port {port} already.", hint="rmqctl sandbox status, rmqctl sandbox down"
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
    """Return the sandboxes that run, by port, or the one of a port; what a killed one left behind is removed."""
    found = []
    for path in state_folder().glob(f"{_PREFIX}{'*' if port is None else port}.json"):
        running = _read(path)
        if running is not None:
            found.append(running)
    return sorted(found, key=lambda running: running.port)


def _read(path: Path) -> RunningSandbox | None:
    """Return what runs, None when nothing does or it has not told yet."""
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
    """Remove a log in which nothing stands."""
    if log.is_file() and log.stat().st_size == 0:
        log.unlink(missing_ok=True)


def _remove_socket(path: Path, folder: Path) -> None:
    """Remove a socket that nobody serves, with the folder that was made for it alone."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        path.unlink()
        if path.parent != folder:
            path.parent.rmdir()
    except OSError:
        pass  # it is gone, or was never made


def wait_until_gone(running: RunningSandbox, timeout_s: float) -> bool:
    """Wait until a sandbox has ended; tell whether it did in time."""
    until_s = time.monotonic() + timeout_s
    while running in find_running(running.port):
        if time.monotonic() >= until_s:
            return False
        time.sleep(_POLL_S)
    return True
