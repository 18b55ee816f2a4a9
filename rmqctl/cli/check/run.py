"""rmqctl check: check groups against limits, for CI and monitoring."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.arguments import AnyGroups, TopicsOfGroups, duration_option_ms, seconds_option
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.display import Display
from rmqctl.errors import UsageError

from .display import COLUMNS, OWN_FORMATS

if TYPE_CHECKING:
    from rmqctl.gate.estate import EstateEntry

HELP = """\b
Examples:
  rmqctl check my-group --max-lag 1000 --min-members 3
  rmqctl check my-group --max-time-lag 5m --warn-time-lag 1m -o nagios
  rmqctl check my-group --min-members 3 --max-lag 100 --stable-for 60s --wait 5m    # a gate after a deployment
  rmqctl check 'payments-*' --fail-on error --max-dlq-growth 0
  rmqctl check --from checks.toml -o junit --outfile checks.xml
  rmqctl check --from checks.toml -o prometheus --outfile /var/lib/node_exporter/rmqctl.prom -q

\b
Exit codes (Nagios):
  0  OK        every limit is met, and everything was read
  1  WARNING   a --warn limit is not met
  2  CRITICAL  another limit is not met
  3  UNKNOWN   something could not be read, or the group does not exist; also
               usage errors, missing permissions, and a cluster that does not
               answer

Formats: text (the default), nagios, prometheus, junit, and those of every command. With --outfile, standard output gets
the text, or with -q nothing.

Without limits, the groups are checked with --fail-on error.

A value that is only partly known is compared by its known part: it can exceed a limit, but it cannot meet one.

A finding that a rebalance may have caused is a warning until it was seen for 55 s.

With --wait, the groups are read every --every until they are OK. --stable-for also requires that the members and the
queues that they hold do not change. The last reading starts when --wait ends at the latest.
--timeout limits each reading of one group.

--from reads a TOML file. The options for limits are its keys; group, topic and context are keys as well:

\b
  [defaults]
  fail-on = "error"
  [[check]]
  group = "billing"
  max-lag = 1000
  min-members = 3
  [[check]]
  group = ["payments-*", "orders-*"]     # without groups that have a check
  max-time-lag = "10m\""""


def command(
    ctx: typer.Context,
    groups: AnyGroups = None,
    topic: TopicsOfGroups = None,
    max_lag: Annotated[int | None, typer.Option("--max-lag", metavar="N", help="Most unread messages.")] = None,
    warn_lag: Annotated[int | None, typer.Option("--warn-lag", metavar="N", help="Warn above this lag.")] = None,
    max_time_lag: Annotated[
        str | None, typer.Option("--max-time-lag", metavar="DURATION", help="Highest age of an unread message.")
    ] = None,
    warn_time_lag: Annotated[
        str | None, typer.Option("--warn-time-lag", metavar="DURATION", help="Warn above this age.")
    ] = None,
    min_members: Annotated[int | None, typer.Option("--min-members", metavar="N", help="Fewest members.")] = None,
    warn_members: Annotated[
        int | None, typer.Option("--warn-members", metavar="N", help="Warn below this number of members.")
    ] = None,
    max_dlq_growth: Annotated[
        int | None, typer.Option("--max-dlq-growth", metavar="N", help="Most dead letters in --dlq-window.")
    ] = None,
    warn_dlq_growth: Annotated[
        int | None, typer.Option("--warn-dlq-growth", metavar="N", help="Warn above this many dead letters.")
    ] = None,
    dlq_window: Annotated[
        str, typer.Option("--dlq-window", metavar="DURATION", help="Count dead letters up to this age.")
    ] = "10m",
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on", metavar="SEVERITY", help="Fail on a finding of rmqctl diagnose this severe or worse."
        ),
    ] = None,
    warn_severity: Annotated[
        str | None, typer.Option("--warn-severity", metavar="SEVERITY", help="Warn of a finding this severe or worse.")
    ] = None,
    stable_for: Annotated[
        str | None,
        typer.Option("--stable-for", metavar="DURATION", help="How long everything must be OK without a rebalance."),
    ] = None,
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="DURATION", help="Wait up to this long until everything is OK.")
    ] = None,
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="Pause between two readings.")] = "5s",
    from_file: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Read groups and limits from a TOML file (- for stdin)."),
    ] = None,
    outfile: Annotated[
        str | None,
        typer.Option("--outfile", metavar="FILE", help="Write the result in the format of -o to FILE; replaces it."),
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.output.render import choose_columns

    invocation = Invocation(ctx, own_formats=OWN_FORMATS)
    choose_columns(COLUMNS, invocation.display)
    _require_unfiltered(invocation.display)
    limits = {
        "max-lag": max_lag, "warn-lag": warn_lag, "max-time-lag": max_time_lag, "warn-time-lag": warn_time_lag,
        "min-members": min_members, "warn-members": warn_members, "max-dlq-growth": max_dlq_growth,
        "warn-dlq-growth": warn_dlq_growth, "fail-on": fail_on, "warn-severity": warn_severity,
        "stable-for": stable_for,
    }  # fmt: skip
    wait_s = None if wait is None else seconds_option("--wait", wait)
    every_s = duration_option_ms("--every", every) / 1000
    if outfile is not None:
        from rmqctl.page.file import require_file

        require_file("--outfile", outfile)
    given = {key: value for key, value in limits.items() if value is not None}
    if from_file is None:
        entries = _entries(groups or (), topic or (), given, dlq_window)
    elif groups or topic or given:
        raise UsageError("--from cannot be combined with groups, topics and limits.", hint="Put them into the file.")
    else:
        from rmqctl.cli.files import read_input
        from rmqctl.gate.estate import parse_estate

        entries = parse_estate(read_input("--from", from_file), from_file)
    from .listing import write_result
    from .rounds import Rounds

    result = Rounds(invocation, entries, wait_s=wait_s, every_s=every_s).run()
    return write_result(result, invocation.display, outfile)


def _entries(
    groups: Sequence[str], topics: Sequence[str], limits: Mapping[str, Any], dlq_window: str
) -> "list[EstateEntry]":
    from rmqctl.gate.estate import EstateEntry, make_limits
    from rmqctl.gate.readings import CheckTarget

    if not groups:
        raise UsageError("No group is given.", hint="Use rmqctl check GROUP..., or rmqctl check --from FILE.")
    if not limits.keys() - {"stable-for"}:
        limits = {**limits, "fail-on": "error"}
    made = make_limits({**limits, "dlq-window": dlq_window}, lambda key: f"--{key}")
    return [EstateEntry(None, CheckTarget(group, tuple(topics), made)) for group in dict.fromkeys(groups)]


def _require_unfiltered(display: Display) -> None:
    """Raise UsageError for options that would hide results in a format that shows no table."""
    used = [
        name
        for name, value in (("columns", display.columns), ("where", display.conditions), ("sort", display.sort_keys))
        if value
    ]
    if used and display.format in OWN_FORMATS:
        raise UsageError(f"--{used[0]} is not supported with -o {display.format}.", hint="Use -o table or -o json.")
