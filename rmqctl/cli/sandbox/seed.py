"""rmqctl sandbox seed: fill a sandbox with a scenario."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.errors import UsageError

from .options import Port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqctl.sandbox.scenarios.seeded_group import SeededGroup

HELP = """\b
Examples:
  rmqctl sandbox seed --list
  rmqctl sandbox seed shop
  rmqctl sandbox seed stuck --port 9876

The topics, groups, producers and consumers of a scenario run in the sandbox until it stops."""

# Deadline of a scenario without --timeout.
_TIMEOUT_S = 60.0


def command(
    ctx: typer.Context,
    scenario: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="Scenario to create.", show_default=False)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the scenarios.")] = False,
    port: Port = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.output.render import choose_columns, render

    invocation = Invocation(ctx, needs_cluster=False)
    if listed == (scenario is not None):
        raise UsageError(
            "Either SCENARIO or --list is required.", hint="List the scenarios with rmqctl sandbox seed --list."
        )
    choose_columns(_COLUMNS if scenario is None else _MADE_COLUMNS, invocation.display)
    if scenario is None:
        return render(_scenarios(), invocation.display)
    from rmqctl.cli.output.activity_line import ActivityLine
    from rmqctl.sandbox.control.messages import Seed
    from rmqctl.sandbox.scenarios.seeded_group import SeededGroup

    from .control_client import ask, find_sandbox

    with ActivityLine(f"Seeding {scenario}", is_wanted=invocation.display.with_notes):
        made = ask(find_sandbox(port), Seed(scenario), list[SeededGroup], invocation.timeout_s(_TIMEOUT_S))
    return render(_made(made), invocation.display)


def _scenarios() -> Listing:
    from rmqctl.sandbox.scenarios.table import SCENARIOS

    items: list[dict[str, Any]] = [{"scenario": name, "summary": each.summary} for name, each in SCENARIOS.items()]
    return Listing(kind="ScenarioList", columns=_COLUMNS, items=items, name=lambda item: str(item["scenario"]))


def _made(made: "Sequence[SeededGroup]") -> Listing:
    import msgspec

    items = msgspec.to_builtins(made)
    return Listing(kind="SeedReport", columns=_MADE_COLUMNS, items=items, name=lambda item: str(item["topic"]))


_COLUMNS = (Column("SCENARIO", "scenario"), Column("DESCRIPTION", "summary"))
_MADE_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("GROUP", "group"),
    Column("MESSAGES", "messageCount", is_number=True),
    Column("DESCRIPTION", "summary"),
)
