"""Finds the sandbox of a command, and sends requests to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rmqctl.errors import NotFoundError, RemoteProtocolError, RmqctlError, UnreachableError, UsageError
from rmqctl.net.line_client import ask_line
from rmqctl.sandbox.control.messages import VERSION, Ask, ControlReply, ControlRequest, ErrorReport
from rmqctl.sandbox.control.state_file import RunningSandbox, find_running

_T = TypeVar("_T")
_KINDS: dict[int, type[RmqctlError]] = {
    kind.exit_code: kind for kind in (RmqctlError, UsageError, NotFoundError, UnreachableError)
}


def find_sandbox(port: int | None) -> RunningSandbox:
    """Return the sandbox of a port, or the only one. Raises NotFoundError, UsageError when there are several."""
    found = find_running(port)
    if not found:
        sentence = "No sandbox is running." if port is None else f"No sandbox is running on port {port}."
        raise NotFoundError("Sandbox", "").reworded(sentence, hint="Start one with rmqctl sandbox up --detach.")
    if len(found) > 1:
        ports = ", ".join(str(running.port) for running in found)
        raise UsageError(f"Several sandboxes are running, on ports {ports}.", hint="Choose one with --port.")
    return found[0]


def ask(running: RunningSandbox, question: Ask, kind: type[_T], timeout_s: float) -> _T:
    """Send a request to a sandbox and return the answer.

    Raises the errors of the sandbox, UnreachableError, DeadlineError, RemoteProtocolError.
    """
    encoded = msgspec.Raw(msgspec.json.encode(question))
    line = ask_line(Path(running.socket), msgspec.json.encode(ControlRequest(encoded)), timeout_s)
    try:
        reply = msgspec.json.decode(line, type=ControlReply)
        if reply.error is None and reply.version == VERSION:
            return msgspec.convert(reply.result, kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"The sandbox sent an unreadable answer ({error}).") from None
    if reply.error is None:
        raise RemoteProtocolError(f"The sandbox uses version {reply.version} of the control protocol, not {VERSION}.")
    raise error_of(reply.error)


def error_of(report: ErrorReport) -> RmqctlError:
    """Return the error that another process reported, to be raised here."""
    kind: Any = _KINDS.get(report.exit_code, RmqctlError)
    error: RmqctlError = kind.__new__(kind, report.message)
    RmqctlError.__init__(error, report.message, hint=report.hint)
    error.name = report.name
    return error
