"""rmqctl sandbox down: stop a sandbox."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.errors import DeadlineError, RmqctlError, UnreachableError

from .options import Port

if TYPE_CHECKING:
    from rmqctl.sandbox.control.state_file import RunningSandbox

HELP = """\b
Examples:
  rmqctl sandbox down
  rmqctl sandbox down --port 9876
  rmqctl sandbox down --all

Waits until the sandbox has stopped and its ports are free. If none is running, there is nothing to do. Data in its
--dir is kept."""

_ANSWER_S = 2.0


def command(
    ctx: typer.Context,
    port: Port = None,
    every: Annotated[bool, typer.Option("--all", help="Stop all sandboxes of this user.")] = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.sandbox.control.state_file import find_running

    from .control_client import find_sandbox

    invocation = Invocation(ctx, needs_cluster=False)
    timeout_s, with_notes = invocation.timeout_ms / 1000, invocation.display.with_notes
    found = find_running(port)
    if not found and with_notes:
        to_stderr("No sandbox is running." if port is None else f"No sandbox is running on port {port}.")
    if len(found) > 1 and not every:
        found = [find_sandbox(port)]  # raises if there are several
    failure: RmqctlError | None = None
    for running in found:
        try:
            end_sandbox(running, timeout_s)
        except RmqctlError as error:
            failure = failure or error  # the others are still stopped
            continue
        if with_notes:
            to_stderr(printable(f"The sandbox at {running.namesrv} has stopped."))
    if failure is not None:
        raise failure
    return 0


def end_sandbox(running: "RunningSandbox", timeout_s: float) -> None:
    """Stop one, and wait until its process has ended. Raises DeadlineError."""
    import os
    import signal
    from types import NoneType

    from rmqctl.sandbox.control.messages import Shutdown
    from rmqctl.sandbox.control.state_file import wait_until_gone

    from .control_client import ask

    try:
        ask(running, Shutdown(), NoneType, min(_ANSWER_S, timeout_s))
    except UnreachableError:
        # It hangs, or is already stopping. That process locks its file, so its pid has not been reused.
        if wait_until_gone(running, 0):
            return
        os.kill(running.pid, signal.SIGTERM)
    if not wait_until_gone(running, timeout_s):
        raise DeadlineError(f"The sandbox at {running.namesrv}", timeout_s, hint=f"Stop it with kill -9 {running.pid}.")
