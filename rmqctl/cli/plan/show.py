"""rmqctl plan show: a saved plan, as it would be applied."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
import time
from typing import Annotated

import typer

from rmqctl.cli.invocation import Invocation

HELP = """\b
Examples:
  rmqctl offset reset my-group --topic orders --to-earliest --plan plan.json
  rmqctl plan show plan.json
  rmqctl plan show plan.json -o wide
  rmqctl apply plan.json

Shows what a plan says; no cluster is asked. A plan that was changed by hand is refused: its numbers were looked up
for it."""


def command(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The plan; - is stdin.", show_default=False)],
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    from rmqctl.cli.change.headings import headings
    from rmqctl.cli.change.listings import PLAN_COLUMNS, plan_listing
    from rmqctl.cli.input_file import read_input
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.ops.documents import parse_plan

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(PLAN_COLUMNS, invocation.display)
    plan, _ = parse_plan(read_input("FILE", file), file)
    said = list(headings(plan, time.time_ns() // 1_000_000, is_saved=True))
    return render(plan_listing(plan, headings=said), invocation.display)
