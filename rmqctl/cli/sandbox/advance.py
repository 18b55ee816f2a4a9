"""rmqctl sandbox advance: advance the clock of a sandbox."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.errors import UsageError
from rmqctl.text.durations import parse_duration_ms, short_duration
from rmqctl.text.times import time_fields

from .options import Port

HELP = """\b
Examples:
  rmqctl sandbox advance 2h
  rmqctl sandbox advance 72h --port 9876

The clock of the sandbox jumps forward and stays ahead. Everything that falls due happens, in order: delayed messages
are delivered, expired messages are deleted, popped messages become visible. Connected clients count as sending
heartbeats all the time; a partitioned client (rmqctl sandbox fault partition) expires. A jump over a year takes half
a minute."""

# A jump over days is a second or two of work, for each broker.
_TIMEOUT_S = 60.0


def command(
    ctx: typer.Context,
    duration: Annotated[
        str, typer.Argument(metavar="DURATION", help="How far to advance: 30s, 2h, 3d.", show_default=False)
    ],
    port: Port = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.sandbox.control.messages import Advance, ClockReport

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
        "namesrv": running.namesrv, **time_fields("timestamp", report.now_ms),
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
