"""Starts a sandbox in a separate process that outlives the command."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.errors import DeadlineError, RmqctlError
from rmqctl.sandbox.control.messages import AskStatus, ErrorReport, SandboxStatus
from rmqctl.sandbox.control.process import SandboxOptions
from rmqctl.sandbox.control.state_file import RunningSandbox, find_running, log_path, state_folder

from .control_client import ask, error_of

_POLL_S = 0.01
_FOR_PEOPLE = "rmqctl: "


def start_detached(wanted: SandboxOptions, timeout_s: float) -> SandboxStatus:
    """Start a sandbox and wait until it answers; what it writes to stderr until then is written here as well.

    Raises its error, and DeadlineError when it neither answers nor writes for this time: one that reads gigabytes of
    its folder writes every two seconds.
    """
    descriptor, name = tempfile.mkstemp(prefix="sandbox-", suffix=".log", dir=state_folder())
    log = Path(name)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
        process = subprocess.Popen(  # noqa: S603 - our own program
            _command(wanted), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True
        )
    try:
        with log.open("rb") as written:
            running = _wait(process, written, timeout_s)
            status = ask(running, AskStatus(), SandboxStatus, timeout_s)
            _pass_on(written)
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
    given += [text for name, value in wanted.settings.items() for text in ("--set", f"{name}={value}")]
    given += ["--like-default"] if wanted.like_default else []
    # -P: nothing is imported from the current folder.
    return [sys.executable, "-P", "-m", "rmqctl", "sandbox", "up", *given, "-o", "json"]


def _wait(process: subprocess.Popen[bytes], written: BinaryIO, timeout_s: float) -> RunningSandbox:
    until_s, lines = time.monotonic() + timeout_s, []
    while time.monotonic() < until_s:
        for running in find_running():
            if running.pid == process.pid:
                return running
        is_over = process.poll() is not None
        if news := _pass_on(written):
            until_s = time.monotonic() + timeout_s
            lines += news
        if is_over:
            raise _failure(lines, process.returncode)
        time.sleep(_POLL_S)
    raise DeadlineError("the sandbox", timeout_s)


def _pass_on(written: BinaryIO) -> list[str]:
    """Write the new lines of its stderr that are meant for people; return all new lines."""
    lines = written.read().decode(errors="replace").splitlines()
    for line in lines:
        if line.startswith(_FOR_PEOPLE):
            to_stderr(printable(line))
    return lines


def _failure(lines: list[str], code: int) -> RmqctlError:
    """Return the error that the other process wrote last."""
    for line in reversed(lines):
        try:
            return error_of(msgspec.convert(json.loads(line), ErrorReport))
        except (ValueError, msgspec.ValidationError):
            continue
    ended = f"Its process was ended by signal {-code}." if code < 0 else None
    return RmqctlError("The sandbox did not start.", hint=lines[-1] if lines and not ended else ended)
