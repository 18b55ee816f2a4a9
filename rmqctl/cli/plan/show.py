"""rmqctl plan show: show a saved plan."""

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

Shows a plan without contacting a cluster. A plan that was edited manually is refused, because its numbers were read
from the cluster."""


def command(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Plan file; - is stdin.", show_default=False)],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.documents.decode import parse_plan
    from rmqctl.cli.change.listings import PLAN_COLUMNS, plan_listing
    from rmqctl.cli.change.sentences import headings
    from rmqctl.cli.files import read_input
    from rmqctl.cli.output.render import choose_columns, render

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(PLAN_COLUMNS, invocation.display)
    plan, _ = parse_plan(read_input("FILE", file), file)
    said = list(headings(plan, time.time_ns() // 1_000_000, is_saved=True))
    return render(plan_listing(plan, headings=said), invocation.display)
