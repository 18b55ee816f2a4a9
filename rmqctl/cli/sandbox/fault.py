"""rmqctl sandbox fault: let things go wrong in a sandbox."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.rules.durations import short_duration

HELP = """\b
Examples:
  rmqctl sandbox fault answer SEND_MESSAGE_V2 with SYSTEM_BUSY --count 3
  rmqctl sandbox fault delay 5s PULL_MESSAGE --forever --broker broker-a
  rmqctl sandbox fault skew 90s behind --broker broker-a
  rmqctl sandbox fault partition 10.0.0.7@4711#123
  rmqctl sandbox fault clear

\b
To requests of a code, or to any: the next one, --count N or --forever;
at all servers, or at one with --broker, which may be namesrv:
  answer REQUEST with CODE   answer with a code instead of doing it; --remark says why
  drop [REQUEST]             close the connection
  silence [REQUEST]          neither do it nor answer
  delay TIME [REQUEST]       do it later
  corrupt [REQUEST]          do it, and answer with a frame that can't be read
To brokers (all of them, or one with --broker):
  refuse-writes, allow-writes    take or give the write permission; the routes tell of it
  skew TIME ahead|behind         set its clock wrong; skew 0 sets it right
  restart                        members and locks are forgotten; --lose-unflushed is a power cut
  stop, start
To clients:
  partition CLIENT_ID        what goes between it and the brokers is lost; connections stay open
  heal [CLIENT_ID]           let it, or all, through again
list shows what is in effect, clear makes everything as it should be.

REQUEST and CODE are numbers or RocketMQ's names (rmqctl explain). A client that is cut off still reaches the name
server, where requests don't say whose they are; brokers give it up after 120 s."""


def command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[FAULT...]", help="What shall go wrong.", show_default=False)
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", help="How many requests. [default: 1]", show_default=False)
    ] = None,
    forever: Annotated[bool, typer.Option("--forever", help="All requests from now on.")] = False,
    broker: Annotated[
        str | None, typer.Option("--broker", metavar="BROKER", help="Only at this one.", show_default=False)
    ] = None,
    remark: Annotated[
        str | None, typer.Option("--remark", metavar="TEXT", help="The answer's remark.", show_default=False)
    ] = None,
    lose_unflushed: Annotated[
        bool, typer.Option("--lose-unflushed", help="Lose what was not yet on the disk.")
    ] = False,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="The sandbox's name server's port.", show_default=False)
    ] = None,
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.sandbox.control_messages import FaultReport

    from .control_client import ask, find_sandbox
    from .fault_words import FaultOptions, parse_fault

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(_COLUMNS, invocation.display)
    question = parse_fault(words or (), FaultOptions(count, forever, broker, remark, lose_unflushed))
    report = ask(find_sandbox(port), question, FaultReport, invocation.timeout_ms / 1000)
    if invocation.display.with_notes:
        for line in report.done:
            to_stderr(printable(line))
    return render(to_listing(report), invocation.display)


def to_listing(report: Any) -> Listing:
    """Make the listing of all that is in effect."""
    import msgspec

    return Listing(
        kind="FaultList",
        columns=_COLUMNS,
        items=msgspec.to_builtins(report.faults),
        name=lambda item: " ".join(str(item[key]) for key in ("fault", "request", "clientId") if item[key]),
        empty="No fault is in effect.",
    )


def _what(item: Item) -> str:
    if item["answerCode"] is not None:
        return f"{item['answer']} ({item['answerCode']})"
    if item["delayMs"] is not None:
        return short_duration(item["delayMs"])
    if item["skewMs"] is not None:
        return f"{short_duration(abs(item['skewMs']))} {'ahead' if item['skewMs'] > 0 else 'behind'}"
    return item["clientId"] or "-"


def _left(item: Item) -> str:
    if item["struckCount"] is None:
        return "-"  # no requests are counted
    return "no end" if item["leftCount"] is None else str(item["leftCount"])


_COLUMNS = (
    Column("FAULT", "fault"),
    Column("WHERE", "server", show=lambda item: item["server"] or "everywhere"),
    Column(
        "REQUEST", "request", show=lambda item: item["request"] or ("any" if item["struckCount"] is not None else "-")
    ),
    Column("WHAT", "answer", show=_what),
    Column("STRUCK", "struckCount", is_number=True),
    Column("LEFT", "leftCount", is_number=True, show=_left),
    Column("REMARK", "remark", is_wide=True),
    Column("CODE", "requestCode", is_number=True, is_wide=True),
    Column("ANSWER-CODE", "answerCode", is_number=True, is_wide=True),
    Column("DELAY-MS", "delayMs", is_number=True, is_wide=True),
    Column("SKEW-MS", "skewMs", is_number=True, is_wide=True),
    Column("CLIENT", "clientId", is_wide=True),
)
