"""rmqctl message tail: follow a topic."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.arguments import Queues, parse_queues
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.message_item import MESSAGE_COLUMNS, message_item, message_name, unread_messages
from rmqctl.cli.output.message_options import BodyOptions, parse_tag_option, parse_when
from rmqctl.cli.output.render import write_failures
from rmqctl.cli.output.row_stream import RowStream
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.errors import UnreachableError, UsageError
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl message tail orders                           # new messages from now on
  rmqctl message tail orders --last 10                 # the last 10 first
  rmqctl message tail orders --since 10m --tag created
  rmqctl message tail orders --since earliest -o jsonl | jq .body
  rmqctl message tail orders --count 1 --timeout 30s   # one, or exit code 6

The command joins no group: it commits nothing and moves no queues. Queues that are added later are read from their
beginning. For a broker that appears later, messages stored since the command started are shown. A broker that becomes
unreachable is reported on stderr, and read again when it is back. Messages that were deleted before they could be read
are reported as well. --last counts messages of all tags. The exit code is 8 when a message that was shown cannot be
read completely. Ctrl-C ends the command (exit code 130)."""


_MAX_LAST = 10_000


def command(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)],
    tag: Annotated[str | None, typer.Option("--tag", metavar="'A||B'", help="With one of these tags.")] = None,
    start: Annotated[
        str,
        typer.Option(
            "--since", "--from", metavar="TIME", help="Start at latest, earliest, or a time as in message find."
        ),
    ] = "latest",
    last: Annotated[
        int | None, typer.Option("--last", metavar="N", help="Show the last N first.", show_default=False)
    ] = None,
    queue: Queues = None,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", help="End after showing N messages.", show_default=False),
    ] = None,
    *,
    bodies: BodyOptions,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.messages.filter import MessageFilter
    from rmqctl.admin.messages.pull import Expression
    from rmqctl.admin.messages.tail import MessageTail
    from rmqctl.text.times import Edge

    invocation = Invocation(ctx)
    stream = RowStream("MessageList", MESSAGE_COLUMNS, message_name, invocation.display)
    style = bodies.style()
    tags, choices = parse_tag_option(tag), parse_queues(queue)
    when = parse_when("--since", start)
    if (last is not None and not 0 <= last <= _MAX_LAST) or (count is not None and count < 1):
        raise UsageError(f"--last must be 0 to {_MAX_LAST}, and --count 1 or more.")
    if last is not None and when != Edge.LATEST:
        raise UsageError("--last and --since cannot be used together.")
    full_topic = invocation.full_name(topic)

    async def follow(client: "Client") -> int:
        left, is_whole = count, True
        tail = MessageTail(
            client, full_topic, MessageFilter(tags=tags), lambda said: to_stderr(f"rmqctl: {printable(said)}"),
            choices=choices, expression=Expression(tag or "*"),
        )  # fmt: skip
        since_ms = when if isinstance(when, int) else None
        messages = tail.run(since_ms=since_ms, is_from_end=when == Edge.LATEST, last_count=last or 0)
        async with aclosing(messages):
            async for found in messages:
                shown = stream.write([message_item(each, style) for each in found], at_most=left)
                is_whole = is_whole and not unread_messages(shown)
                if left is not None:
                    left -= len(shown)
                    if left == 0:
                        break
        if left:
            to_stderr(f"rmqctl: {left} of {counted(count or 0, 'message')} did not arrive within --timeout.")
            return UnreachableError.exit_code
        return 0 if is_whole else 8

    code = invocation.ask(follow, open_ended=True, waiting="Waiting for messages")
    findings = invocation.display.findings
    write_failures(findings.failures, findings.hints)
    return code or (8 if findings.failures else 0)
