"""rmqctl sandbox seed: fill a sandbox with a situation."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.errors import UsageError

HELP = """\b
Examples:
  rmqctl sandbox seed --list
  rmqctl sandbox seed shop
  rmqctl sandbox seed stuck --port 9876

The topics, groups, producers and consumers that a scenario makes live in the sandbox, until it ends."""

# What a scenario may take when --timeout does not say.
_TIMEOUT_S = 60.0


def command(
    ctx: typer.Context,
    scenario: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="The situation.", show_default=False)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show what there is.")] = False,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="Its name server's port.", show_default=False)
    ] = None,
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    from rmqctl.cli.output.render import choose_columns, render

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(_COLUMNS, invocation.display)
    if listed == (scenario is not None):
        raise UsageError("Name a scenario, or ask for the --list of them.", hint="rmqctl sandbox seed --list")
    if scenario is None:
        return render(_scenarios(), invocation.display)
    from rmqctl.sandbox.control_messages import Seed

    from .control_client import ask, find_sandbox

    for line in ask(find_sandbox(port), Seed(scenario), list[str], invocation.timeout_s(_TIMEOUT_S)):
        if invocation.display.with_notes:
            to_stderr(printable(line))
    return 0


def _scenarios() -> Listing:
    from rmqctl.sandbox.scenarios import SCENARIOS

    items: list[dict[str, Any]] = [{"scenario": name, "summary": each.summary} for name, each in SCENARIOS.items()]
    return Listing(kind="ScenarioList", columns=_COLUMNS, items=items, name=lambda item: str(item["scenario"]))


_COLUMNS = (Column("SCENARIO", "scenario"), Column("WHAT", "summary"))
