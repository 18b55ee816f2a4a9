"""rmqctl clean-expired: messages of a group that are stuck, and why."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.message_options import Queues, parse_queues
from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.observe.stuck_scan import StuckScan

HELP = """\b
Examples:
  rmqctl clean-expired my-group
  rmqctl clean-expired my-group --topic orders --queue broker-a:0-3
  rmqctl clean-expired my-group --older-than 15m --for 15m     only what was in consumption for 15 minutes
  rmqctl clean-expired my-group -o json | jq '.items[] | select(.isStuck)'

The group is watched for 10 s. A queue is stuck when its client has had the same message in hand for longer than
--older-than. Where 10 s do not decide, it is watched for up to a minute. Nothing is changed.

\b
WHY:
  IN_CONSUMPTION    the listener has the message
  BLOCKED_IN_ORDER  consumed in order: the queue waits for the message
  LOCAL_RETRY       the listener fails, and no broker stores the message for a retry
  IN_HAND           the client has the message and does not report more
  SLOW              the queue moves, slowly, or its message is younger than --older-than: not stuck
  PAUSED            the client holds the queue and takes no messages
  NOT_PULLED        the client holds the queue and has stopped pulling
  PULLS_REFUSED     the broker lets no member pull (consumeEnable=false)
  FILTERED          the next message does not pass the client's filter
  MEMBER_SILENT     a member that does not answer may hold the queue
  NOT_ASSIGNED      no member holds the queue;  NO_MEMBERS: the group has none
  MEMBERS_UNKNOWN, NOT_REPORTED, POP   rmqctl cannot see what members have in hand

\b
Columns:
  FOR        how long the client has had the message in hand, at least
  DUP-RISK   processed but not committed, at most: a crash would redeliver these

Exit codes: 0 nothing is stuck, 10 something is, 8 a part could not be decided or read."""

_WINDOW = "10s"
_PATIENCE_S = 60.0


def command(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.", show_default=False)],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Only this topic; * and ? match any text. Repeatable."),
    ] = None,
    queue: Queues = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Least time in consumption of a stuck message. Default: 1m, or 3 times the client's average.",
        ),
    ] = None,
    window: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Watch for exactly this long. Default: 10s to 1m.")
    ] = None,
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    from rmqctl.cli.output.progress import ScanProgress
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.cli.stuck_listing import COLUMNS, exit_code, to_listing
    from rmqctl.observe.stuck_scan import scan_group

    invocation = Invocation(ctx)
    choose_columns(COLUMNS, invocation.display)
    older_than_ms = None if older_than is None else _duration_ms("--older-than", older_than)
    window_s = _duration_ms("--for", window or _WINDOW) / 1000
    choices = parse_queues(queue)
    name, topics = invocation.full_name(group), [invocation.full_name(each) for each in topic or ()]

    with ScanProgress("watching, s", is_wanted=True) as progress:

        async def scan(client: "Client") -> "StuckScan":
            return await scan_group(
                client, name, topics, choices, older_than_ms=older_than_ms, window_s=window_s,
                patience_s=_PATIENCE_S if window is None else None,
                on_wait=lambda passed_s, until_s: progress.show(round(passed_s), round(until_s)),
            )  # fmt: skip

        found = invocation.ask(scan, open_ended=True)
    listing = to_listing(found, older_than_ms)
    return exit_code(found, render(listing, invocation.display))


def _duration_ms(option: str, text: str) -> int:
    """Return a duration of an option in ms. Raises UsageError for anything else, and for none."""
    from rmqctl.rules.durations import parse_duration_ms

    try:
        duration_ms = parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}.") from None
    if duration_ms == 0:
        raise UsageError(f"{option} must be above 0.")
    return duration_ms
