"""Options that watch and top share."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

Groups = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[GROUP]...", help="Consumer groups; * and ? are wildcards. [default: all]", show_default=False
    ),
]
Every = Annotated[str, typer.Option("--every", metavar="TIME", help="Time between two rounds.")]
Window = Annotated[str, typer.Option("--window", metavar="TIME", help="Judge the samples of this time.")]
LagAllowance = Annotated[
    int, typer.Option("--lag-allowance", metavar="N", min=0, help="Up to this lag, a queue is caught up.")
]
Rate = Annotated[float, typer.Option("--rate", metavar="N", min=0.1, help="Most requests per second to each broker.")]
For = Annotated[str | None, typer.Option("--for", metavar="TIME", help="End after this time.")]
Rounds = Annotated[int | None, typer.Option("--rounds", metavar="N", min=1, help="End after N rounds.")]
