"""Starts a sandbox in a separate process that outlives the command."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from rmqctl.errors import DeadlineError, RmqctlError
from rmqctl.sandbox.control.messages import AskStatus, ErrorReport, SandboxStatus
from rmqctl.sandbox.control.process import SandboxOptions
from rmqctl.sandbox.control.state_file import RunningSandbox, find_running, log_path, state_folder

from .control_client import ask, error_of

_POLL_S = 0.01
_TAIL_BYTES = 64 * 1024


def start_detached(wanted: SandboxOptions, timeout_s: float) -> SandboxStatus:
    """Start a sandbox and wait until it answers. Raises its error, DeadlineError if it is not up in time."""
    descriptor, name = tempfile.mkstemp(prefix="sandbox-", suffix=".log", dir=state_folder())
    log = Path(name)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
        process = subprocess.Popen(  # noqa: S603 - our own program
            _command(wanted), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True
        )
    try:
        running = _wait(process, log, timeout_s)
        status = ask(running, AskStatus(), SandboxStatus, timeout_s)
    except BaseException:
        process.terminate()
        log.unlink(missing_ok=True)
        raise
    log.replace(log_path(running.port))
    # It is detached from now on; Popen would warn about a child that is still running.
    process.returncode = 0
    return status


def _command(wanted: SandboxOptions) -> list[str]:
    options = {
        "--brokers": wanted.brokers, "--queues": wanted.queues, "--port": wanted.port, "--listen": wanted.listen,
        "--as": wanted.plays, "--dir": wanted.directory,
    }  # fmt: skip
    given = [text for name, value in options.items() if value is not None for text in (name, str(value))]
    # -P: nothing is imported from the current folder.
    return [sys.executable, "-P", "-m", "rmqctl", "sandbox", "up", *given, "-o", "json"]


def _wait(process: subprocess.Popen[bytes], log: Path, timeout_s: float) -> RunningSandbox:
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        for running in find_running():
            if running.pid == process.pid:
                return running
        if process.poll() is not None:
            raise _failure(log)
        time.sleep(_POLL_S)
    raise DeadlineError("the sandbox", timeout_s)


def _failure(log: Path) -> RmqctlError:
    """Return the error that the other process wrote last."""
    lines = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines()
    for line in reversed(lines):
        try:
            return error_of(msgspec.convert(json.loads(line), ErrorReport))
        except (ValueError, msgspec.ValidationError):
            continue
    return RmqctlError("The sandbox did not start.", hint=lines[-1] if lines else None)
