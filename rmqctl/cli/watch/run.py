"""rmqctl watch: watch groups over time, judge them, record, export and notify."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer

from rmqctl.cli.arguments import duration_option_ms
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.row_stream import RowStream, require_stream
from rmqctl.errors import UsageError

from .display import COLUMNS, HEALTH_HELP
from .options import WatchOptions

HELP = f"""\b
Examples:
  rmqctl watch                                    # all groups, until Ctrl-C
  rmqctl watch my-group 'payments-*' --every 10s
  rmqctl watch --metrics 127.0.0.1:9464 -q        # for Prometheus
  rmqctl watch --record groups.jsonl              # for rmqctl pipeline run
  rmqctl watch --notify webhook:@/etc/pager-url --notify-at STALL
  rmqctl watch my-group --notify 'command:./page.sh' --for 1h
  rmqctl watch --dashboard > dashboard.json       # for Grafana

Reads all groups every --every, and judges each queue by its samples in --window, by the rules of Burrow. A group is as
healthy as its worst queue. A line appears when the health of a group changes.

\b
{HEALTH_HELP}
TIME-LAG is the age of the oldest unread message, interpolated between the samples. A value after >= is a lower bound.

At most --rate requests per second are sent to each broker. With many groups, members, messages in flight and dead
letters are therefore read less often than offsets; groups that are not OK are read first.

\b
--notify TARGET  webhook:URL (or just the URL): POST of a JSON document
                 command:COMMAND: JSON on stdin, RMQCTL_GROUP ... as variables
                 file:FILE: a line of JSON
                 NAME:TEXT: a plugin's notifier
                 A target of @FILE is read from FILE, which keeps secrets out
                 of the list of processes.

A notification is sent when a group reaches --notify-at, and again if it becomes worse or after --repeat-every. The
incident is resolved when the group has been better for --quiet-for, or is gone. One notification has all groups of a
round. rmqctl tries again until each target has it. Open incidents and what is not delivered survive a restart.

--record appends to FILE. A full FILE becomes FILE.1.gz, FILE.1.gz becomes FILE.2.gz, and so on up to --record-keep.
After a restart, the samples of FILE count for the verdicts.

After --for, --rounds or SIGTERM, the exit code is 0, or 8 when a part was not read, recorded or delivered. Ctrl-C gives
130."""


def command(
    ctx: typer.Context,
    *,
    options: WatchOptions,
    each_round: Annotated[bool, typer.Option("--each-round", help="Show every group in every round.")] = False,
    record: Annotated[str | None, typer.Option("--record", metavar="FILE", help="Append the samples to FILE.")] = None,
    record_size: Annotated[int, typer.Option("--record-size", metavar="MB", min=1, help="Largest size of FILE.")] = 64,
    record_keep: Annotated[
        int, typer.Option("--record-keep", metavar="N", min=0, help="Number of full, compressed files to keep.")
    ] = 8,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics to Prometheus.")
    ] = None,
    notify: Annotated[
        list[str] | None, typer.Option("--notify", metavar="TARGET", help="Send notifications. Repeatable.")
    ] = None,
    notify_at: Annotated[
        str, typer.Option("--notify-at", metavar="HEALTH", help="Notify of this health or worse.")
    ] = "WARN",
    quiet_for: Annotated[
        str, typer.Option("--quiet-for", metavar="DURATION", help="Resolve an incident after this time.")
    ] = "10m",
    repeat_every: Annotated[
        str | None, typer.Option("--repeat-every", metavar="DURATION", help="Notify of an open incident again.")
    ] = None,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Print a Grafana dashboard for the metrics.")] = False,
    plugin: Annotated[
        list[str] | None, typer.Option("--plugin", metavar="FILE", help="Plugin with notifiers. Repeatable.")
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    if dashboard:
        from importlib.resources import files

        Invocation(ctx, needs_cluster=False)
        typer.echo(files("rmqctl.watch").joinpath("dashboard.json").read_text(), nl=False)
        return 0
    invocation = Invocation(ctx)
    require_stream(invocation.display)
    from rmqctl.rules.health import Health
    from rmqctl.text.names import one_of

    from .session import Session

    if notify_at.upper() not in set(Health) - {Health.OK}:
        raise UsageError(f"Invalid health {notify_at!r} in --notify-at.", hint=one_of(list(Health)[:-1]))
    settings = options.settings(
        invocation,
        shows_each_round=each_round,
        notify_at=Health(notify_at.upper()),
        quiet_ms=duration_option_ms("--quiet-for", quiet_for),
        repeat_ms=None if repeat_every is None else duration_option_ms("--repeat-every", repeat_every),
    )
    stream = RowStream("GroupHealth", COLUMNS, lambda item: f"{item['group']} {item['health']}", invocation.display)
    session = Session(settings, stream, with_notes=invocation.display.with_notes)
    try:
        session.open(
            record,
            record_size << 20,
            record_keep,
            metrics=metrics,
            notify=notify or (),
            plugins=plugin or (),
            name_servers=invocation.name_servers(),
        )
        invocation.ask(session.run, is_service=True)
    finally:
        is_delivered = session.close()
    is_complete = session.is_complete and not invocation.display.findings.failures
    return 0 if is_complete and is_delivered else 8
