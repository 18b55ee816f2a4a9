"""rmqctl sandbox fault: inject faults into a sandbox."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.text.durations import short_duration

from .options import Port

HELP = """\b
Examples:
  rmqctl sandbox fault answer SEND_MESSAGE_V2 with SYSTEM_BUSY --count 3
  rmqctl sandbox fault delay 5s PULL_MESSAGE --forever --broker broker-a
  rmqctl sandbox fault skew 90s behind --broker broker-a
  rmqctl sandbox fault partition 10.0.0.7@4711#123
  rmqctl sandbox fault clear

\b
Faults of requests with a code, or of any request: the next one, --count N
or --forever; on all servers, or on one with --broker, which can be namesrv:
  answer REQUEST with CODE   answer with a code instead of executing it;
                             --remark adds a text. FLUSH_DISK_TIMEOUT,
                             FLUSH_SLAVE_TIMEOUT, SLAVE_NOT_AVAILABLE: a
                             send is executed, and answered with its place
  drop [REQUEST]             close the connection
  silence [REQUEST]          neither execute it nor answer
  delay TIME [REQUEST]       execute it later
  corrupt [REQUEST]          execute it, and answer with an unreadable frame
Faults of brokers (all of them, or one with --broker):
  refuse-writes, allow-writes    remove or restore the write permission, also
                                 in routes
  skew TIME ahead|behind         set the clock wrong; skew 0 corrects it
  restart                        forget members and locks; --lose-unflushed
                                 simulates a power cut
  stop, start
Faults of clients:
  partition CLIENT_ID        drop all traffic between it and the brokers;
                             connections stay open
  heal [CLIENT_ID]           restore the traffic of one client, or of all
list shows the active faults; clear removes all of them.

REQUEST and CODE are numbers or RocketMQ's names (rmqctl explain). A partitioned client still reaches the name server,
where requests carry no client id; brokers remove it after 120 s."""


def command(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FAULT...]", help="Fault to inject. [default: list]", show_default=False),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", help="Number of requests to affect. [default: 1]", show_default=False),
    ] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Affect all requests from now on.")] = False,
    broker: Annotated[
        str | None, typer.Option("--broker", metavar="BROKER", help="Only this broker, or namesrv.", show_default=False)
    ] = None,
    remark: Annotated[
        str | None, typer.Option("--remark", metavar="TEXT", help="Remark of the answer.", show_default=False)
    ] = None,
    lose_unflushed: Annotated[
        bool, typer.Option("--lose-unflushed", help="Lose data that is not yet on disk.")
    ] = False,
    port: Port = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.sandbox.control.messages import FaultReport

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
    """Return the listing of all active faults."""
    import msgspec

    return Listing(
        kind="FaultList",
        columns=_COLUMNS,
        items=msgspec.to_builtins(report.faults),
        name=lambda item: " ".join(str(item[key]) for key in ("fault", "request", "clientId") if item[key]),
        empty="No faults are active.",
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
        return "-"  # it does not count requests
    return "unlimited" if item["leftCount"] is None else str(item["leftCount"])


_COLUMNS = (
    Column("FAULT", "fault"),
    Column("WHERE", "server", show=lambda item: item["server"] or "everywhere"),
    Column(
        "REQUEST", "request", show=lambda item: item["request"] or ("any" if item["struckCount"] is not None else "-")
    ),
    Column("DETAIL", "answer", show=_what),
    Column("AFFECTED", "struckCount", is_number=True),
    Column("REMAINING", "leftCount", is_number=True, show=_left),
    Column("REMARK", "remark", is_wide=True),
    Column("CODE", "requestCode", is_number=True, is_wide=True),
    Column("ANSWER-CODE", "answerCode", is_number=True, is_wide=True),
    Column("DELAY-MS", "delayMs", is_number=True, is_wide=True),
    Column("SKEW-MS", "skewMs", is_number=True, is_wide=True),
    Column("CLIENT", "clientId", is_wide=True),
)
