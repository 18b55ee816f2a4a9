"""rmqctl sandbox status: the running sandboxes and their contents."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Failure

from .options import Port

HELP = """\b
Examples:
  rmqctl sandbox status
  rmqctl sandbox status --port 9876 -o wide
  rmqctl sandbox status -o json | jq '.items[].brokers[].memberCount'

Shows all sandboxes of this user, or the one whose name server has the port. HELD counts requests that the broker holds
until a message arrives. Counts exclude the topics and groups that RocketMQ creates for itself."""


def command(
    ctx: typer.Context,
    port: Port = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.sandbox.control.messages import AskStatus, SandboxStatus
    from rmqctl.sandbox.control.state_file import find_running

    from .control_client import ask, find_sandbox
    from .listing import COLUMNS, to_listing

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(COLUMNS, invocation.display)
    running = find_running() if port is None else [find_sandbox(port)]
    statuses, failures = [], []
    for each in running:
        try:
            statuses.append(ask(each, AskStatus(), SandboxStatus, invocation.timeout_ms / 1000))
        except RmqctlError as error:
            failures.append(Failure(None, f"the sandbox at {each.namesrv}", error))
    if failures and not statuses:
        raise failures[0].error
    return render(to_listing(statuses, failures), invocation.display)
