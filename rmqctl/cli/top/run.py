"""rmqctl top: groups on a full screen, the worst first, with their queues and members."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
import os
import sys

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.display import Display
from rmqctl.cli.watch.options import Every, Rate, WatchOptions

HELP = """\b
Examples:
  rmqctl top                                       # all groups
  rmqctl top 'payments-*' --every 2s
  rmqctl top --sort -lag                           # the largest lag first
  rmqctl top --rounds 1 | head -20                 # lines, the worst first
  rmqctl top -o jsonl --where 'health~STOP|STALL'

Reads all groups every --every, judges them like rmqctl watch, and shows them on the whole terminal: health, lag, time
lag, and messages per second in and out. Press Enter for the queues and members of a group, / to filter, s to sort, p to
pause, ? for all keys, and q to quit.

At most --rate requests per second are sent to each broker; the upper right corner shows how many are sent. With many
groups, members are therefore read less often than offsets. The group that is open is read first. While no server
answers, the screen shows the error, and rmqctl tries again every --every.

When it does not run on a terminal, or with -o jsonl, csv, plain and so on, every round appends a line for each group,
the worst group first. The exit code is then 0, or 8 when a part was not read. Ctrl-C gives 130."""


class TopOptions(WatchOptions, frozen=True, kw_only=True):
    """Those of watch, with more frequent rounds."""

    every: Every = "5s"
    rate: Rate = 10.0


def command(
    ctx: typer.Context,
    *,
    options: TopOptions,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx)
    from rmqctl.cli.output.render import choose_columns
    from rmqctl.cli.output.row_stream import RowStream, require_keys, require_stream
    from rmqctl.cli.watch.session import Session

    from .columns import GROUPS, LINES, NO_GROUP

    display = invocation.display
    has_screen = _has_screen(display)
    require_stream(display, with_sort=True)
    choose_columns(GROUPS if has_screen else LINES, display)
    settings = options.settings(invocation, shows_each_round=True, worst_first=True)
    if has_screen:
        from .session import ScreenSession

        require_keys(NO_GROUP, display)
        place = invocation.context_name or invocation.name_servers()
        screen = ScreenSession(settings, display, place)
        invocation.ask(screen.run, is_service=True, has_screen=True)
        return 130 if screen.is_interrupted else 0
    stream = RowStream("GroupHealth", LINES, lambda item: f"{item['group']} {item['health']}", display, with_sort=True)
    session = Session(settings, stream, with_notes=display.with_notes)
    invocation.ask(session.run, is_service=True)
    return 0 if session.is_complete and not display.findings.failures else 8


def _has_screen(display: Display) -> bool:
    """Return whether the whole terminal can be used: to draw on, and to read keys from."""
    is_terminal = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    return display.format in ("table", "wide") and is_terminal and os.environ.get("TERM") != "dumb"
