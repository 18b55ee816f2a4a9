"""Options that watch and top share."""

# No "from __future__ import annotations" here: the fields of WatchOptions would be texts to evaluate.
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from rmqctl.cli.arguments import duration_option_ms

if TYPE_CHECKING:
    from rmqctl.cli.invocation import Invocation

    from .session import WatchSettings

Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="Time between two rounds.")]
Rate = Annotated[float, typer.Option("--rate", metavar="N", min=0.1, help="Most requests per second to each broker.")]


class WatchOptions(Struct, frozen=True, kw_only=True):
    """Which groups are read, how often, and how they are judged."""

    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...", help="Consumer groups; * and ? are wildcards. [default: all]", show_default=False
        ),
    ] = None
    every: Every = "15s"
    window: Annotated[str, typer.Option("--window", metavar="DURATION", help="Judge the samples of this time.")] = "5m"
    lag_allowance: Annotated[
        int, typer.Option("--lag-allowance", metavar="N", min=0, help="Up to this lag, a queue is caught up.")
    ] = 0
    rate: Rate = 2.0
    for_: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="End after this time.")] = None
    rounds: Annotated[int | None, typer.Option("--rounds", metavar="N", min=1, help="End after N rounds.")] = None

    def settings(self, invocation: "Invocation", **more: Any) -> "WatchSettings":
        """Return the settings of a run; `more` are those that the commands have each. Raises UsageError."""
        from .session import WatchSettings

        settings = WatchSettings(
            groups=tuple(map(invocation.full_name, self.groups or ())),
            every_s=duration_option_ms("--every", self.every) / 1000,
            window_ms=duration_option_ms("--window", self.window),
            lag_allowance=self.lag_allowance,
            rate_per_s=self.rate,
            for_s=None if self.for_ is None else duration_option_ms("--for", self.for_) / 1000,
            round_count=self.rounds,
            **more,
        )
        settings.require_window()
        return settings
