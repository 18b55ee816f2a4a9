"""rmqctl sandbox advance: let time pass in a sandbox at once."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.errors import UsageError
from rmqctl.rules.durations import parse_duration_ms, short_duration
from rmqctl.rules.times import iso_time

HELP = """\b
Examples:
  rmqctl sandbox advance 2h
  rmqctl sandbox advance 72h --port 9876

Its clock jumps forward, and stays ahead. All that falls due meanwhile happens, in order: delayed messages are
delivered, old ones deleted, popped ones come back. Clients that are connected count as heard all the while; one that is
cut off (rmqctl sandbox fault partition) is given up as if the time had passed."""

# A jump over days is a second or two of work, for each broker.
_TIMEOUT_S = 60.0


def command(
    ctx: typer.Context,
    duration: Annotated[str, typer.Argument(metavar="TIME", help="How far: 30s, 2h, 3d.", show_default=False)],
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="Its name server's port.", show_default=False)
    ] = None,
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.sandbox.control_messages import Advance, ClockReport

    from .control_client import ask, find_sandbox

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(_COLUMNS, invocation.display)
    try:
        jump_ms = parse_duration_ms(duration)
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    running = find_sandbox(port)
    report = ask(running, Advance(jump_ms), ClockReport, invocation.timeout_s(_TIMEOUT_S))
    item = {
        "namesrv": running.namesrv, "timestamp": report.now_ms, "timestampIso": iso_time(report.now_ms),
        "clockAheadMs": report.clock_ahead_ms,
    }  # fmt: skip
    return render(
        Listing(kind="SandboxClock", columns=_COLUMNS, items=[item], name=lambda item: str(item["timestamp"])),
        invocation.display,
    )


_COLUMNS = (
    Column("NAMESRV", "namesrv"),
    Column("NOW", "timestamp", show=lambda item: str(item["timestampIso"])),
    Column("AHEAD", "clockAheadMs", show=lambda item: short_duration(item["clockAheadMs"])),
)
