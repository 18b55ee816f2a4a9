"""rmqctl consume run: be a member of a group, and consume."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.change.options import Confirm, Yes
from rmqctl.cli.durations import seconds_option
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.text import note_to_stderr, printable
from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.consumer.batch import Listener
    from rmqctl.model.consuming import Subscription

HELP = """\b
Examples:
  rmqctl consume run my-group orders --print --yes
  rmqctl consume run my-group 'orders:created || paid' --handler consume.py:handle --workers 50 --yes
  rmqctl consume run my-group orders 'payments:SQL92:price > 5' --exec ./handle.sh --yes
  rmqctl consume run smoke-group orders --print --from earliest --count 1 --for 30s --yes
  rmqctl consume run my-group orders --print --strategy rooms-first --plugin rooms_first \\
      --strategy-option maxShare=1.2 --instance c1.east --yes

It joins the group as any RocketMQ client does: other members give queues up to it, what it consumes is acknowledged,
and what fails is sent back to be tried again, at last as a dead letter. So it wants --yes, a readonly context refuses
it, and a protected one wants --confirm GROUP.

\b
--handler FUNCTION   MODULE:FUNCTION or FILE.py:FUNCTION, called as FUNCTION(messages, context), plain (in threads)
                     or async; it returns "CONSUME_SUCCESS" or "RECONSUME_LATER"; None and exceptions mean the latter
--exec COMMAND       run for each batch, without a shell: the body on stdin (of several messages a JSON line each),
                     RMQ_TOPIC, RMQ_MESSAGE_ID, RMQ_KEYS ... as variables; exit code 0 is success
--print              shows each message as message tail does

All members of a group must share by the same --strategy, with the same options, and consume the same topics.
Strategies: averagely (RocketMQ's default), circle, consistent-hash, machine-room, machine-room-nearby, those of
plugins, and config: this member takes the queues that --queue names, of each topic and of what is to be retried,
whoever else has them. RocketMQ's names as well (AVG). SIGTERM or Ctrl-C ends it: what
was pulled is consumed within --drain, then offsets are stored and the group is left (exit code 0, or 8 when something
was left undone); a second one ends it soon (exit code 130), and says what was not acknowledged. --count messages that
do not come within --for are exit code 6. Each request has a third of --timeout."""


def command(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group to join.", show_default=False)],
    topic: Annotated[
        list[str], typer.Argument(metavar="TOPIC[:EXPR]...", help="Topics, each with its tags.", show_default=False)
    ],
    handler: Annotated[str | None, typer.Option("--handler", metavar="FUNCTION", help="Call a function.")] = None,
    exec_: Annotated[str | None, typer.Option("--exec", metavar="COMMAND", help="Run a command.")] = None,
    print_: Annotated[bool, typer.Option("--print", help="Show each message.")] = False,
    start: Annotated[
        str,
        typer.Option("--from", metavar="TIME", help="Where queues begin without an offset: latest, earliest, a time."),
    ] = "latest",
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, max=1024, help="Messages at once.")] = 1,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, max=1024, help="Batches at one time. [default: 20]")
    ] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="STRATEGY", help="How queues are shared.")
    ] = "averagely",
    virtual_nodes: Annotated[
        int | None, typer.Option("--virtual-nodes", metavar="N", min=1, max=10_000, help="For consistent-hash.")
    ] = None,
    room: Annotated[
        list[str] | None, typer.Option("--room", metavar="ROOM", help="For machine-room. May be repeated.")
    ] = None,
    site_of: Annotated[
        str | None,
        typer.Option("--site-of", metavar="SIGN|NAME", help="For machine-room-nearby: rooms end at it, or a plugin's."),
    ] = None,
    inner: Annotated[
        str | None, typer.Option("--inner", metavar="STRATEGY", help="What machine-room-nearby shares by.")
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", metavar="QUEUE", help="For config: broker-a:0, broker-a:0-3 or broker-a."),
    ] = None,
    strategy_option: Annotated[
        list[str] | None,
        typer.Option("--strategy-option", metavar="NAME=VALUE", help="For a plugin's strategy. May be repeated."),
    ] = None,
    plugin: Annotated[
        list[str] | None, typer.Option("--plugin", metavar="FILE", help="A plugin with strategies or site resolvers.")
    ] = None,
    consume_timeout: Annotated[
        str, typer.Option("--consume-timeout", metavar="TIME", help="What takes longer is sent back.")
    ] = "15m",
    max_reconsume_times: Annotated[
        int, typer.Option("--max-reconsume-times", metavar="N", min=-1, help="Then it is a dead letter; -1 is 16.")
    ] = -1,
    broadcast: Annotated[
        bool, typer.Option("--broadcast", help="Every member gets every message; offsets stay on this machine.")
    ] = False,
    protect: Annotated[
        str, typer.Option("--protect", metavar="TIME", help="Others count only after they have been there so long.")
    ] = "0s",
    instance: Annotated[
        str | None, typer.Option("--instance", metavar="NAME", help="The end of the client's id.", show_default=False)
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="End after so many messages.", show_default=False)
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after this time.", show_default=False)
    ] = None,
    drain: Annotated[str, typer.Option("--drain", metavar="TIME", help="How long the end may take.")] = "30s",
    confirm: Confirm = None,
    yes: Yes = False,
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    from rmqctl.cli.confirm import confirm as ask_whether
    from rmqctl.cli.confirm import confirm_by_name
    from rmqctl.cli.output.body import body_style
    from rmqctl.cli.output.message_item import MESSAGE_COLUMNS, message_name
    from rmqctl.cli.output.message_options import MAX_BODY, parse_queues, parse_when
    from rmqctl.cli.output.streaming import Stream
    from rmqctl.consumer.settings import ConsumerSettings
    from rmqctl.model.consuming import ConsumeFromWhere
    from rmqctl.model.group import BROADCASTING, CLUSTERING
    from rmqctl.rules.group_names import require_new_name
    from rmqctl.rules.times import Edge

    from ..whatif.options import given_options
    from .listeners import load_function, print_to, run_command
    from .running import Running
    from .sharing import Sharing, parse_custom

    invocation = Invocation(ctx)
    display = invocation.display
    if (handler is not None) + (exec_ is not None) + print_ != 1:
        raise UsageError("Say what consumes.", hint="Give one of --handler, --exec and --print.")
    name = invocation.full_name(group)
    require_new_name(name)
    subscriptions = _subscriptions(invocation, topic)
    when = parse_when("--from", start)
    given = given_options(virtual_nodes=virtual_nodes, rooms=room or (), site_of=site_of, inner=inner, share_count=None)
    sharing = Sharing(strategy, given, parse_queues(queue), parse_custom(strategy_option or ()), plugin or ())
    settings = ConsumerSettings(
        group=name,
        message_model=BROADCASTING if broadcast else CLUSTERING,
        consume_from=ConsumeFromWhere.TIMESTAMP
        if isinstance(when, int)
        else ConsumeFromWhere.FIRST_OFFSET
        if when is Edge.EARLIEST
        else ConsumeFromWhere.LAST_OFFSET,
        consume_timestamp_ms=when if isinstance(when, int) else None,
        instance_name=instance,
        batch_size=batch if count is None else min(batch, count),
        # Lines of several messages must not run into each other.
        worker_count=1 if print_ else workers or 20,
        consume_timeout_s=seconds_option("--consume-timeout", consume_timeout),
        max_reconsume_times=max_reconsume_times,
        protect_s=seconds_option("--protect", protect),
    )
    if settings.consume_timeout_s == 0:
        raise UsageError("--consume-timeout of 0 leaves no time to consume anything.")
    style = body_style("auto", None, [], MAX_BODY)
    running = Running(
        settings, subscriptions, sharing.strategy, limit_s=None if for_ is None else seconds_option("--for", for_),
        count=count, drain_s=seconds_option("--drain", drain),
        check=partial(sharing.require_possible, settings, [each.topic for each in subscriptions]),
        say=lambda sentence: note_to_stderr(printable(sentence)) if display.with_notes else None,
        warn=lambda sentence: note_to_stderr(f"rmqctl: {printable(sentence)}"),
    )  # fmt: skip
    listener: Listener
    if handler is not None:
        listener = load_function(handler)
    elif exec_ is not None:
        listener = run_command(exec_, style, timeout_s=settings.consume_timeout_s)
    else:
        listener = print_to(Stream("MessageList", MESSAGE_COLUMNS, message_name, display), style, running.fail)
    invocation.require_writable()
    if invocation.is_protected:
        confirm_by_name(name, given=confirm, may_ask=invocation.may_ask)
    else:
        plan = [f"Joins group {name}: its queues are shared anew, and what is consumed here is acknowledged."]
        ask_whether(() if yes else plan, is_confirmed=yes, may_ask=invocation.may_ask)

    async def consume(client: "Client") -> int:
        return await running.run(client, listener)

    return invocation.ask(consume, is_service=True)


def _subscriptions(invocation: Invocation, topics: list[str]) -> "list[Subscription]":
    """Return what TOPIC, TOPIC:TAGS and TOPIC:SQL92:EXPRESSION name. Raises UsageError."""
    from rmqctl.rules.subscriptions import SQL92, TAG, make_subscription

    found: dict[str, Subscription] = {}
    for each in topics:
        topic, _, expression = each.partition(":")
        name = invocation.full_name(topic)
        is_sql = expression.startswith(f"{SQL92}:")
        try:
            made = make_subscription(name, expression.removeprefix(f"{SQL92}:") or "*", SQL92 if is_sql else TAG)
        except ValueError as error:
            raise UsageError(f"{each!r} can't be subscribed to: {error}.") from None
        if name in found:
            raise UsageError(f"{topic} is named twice.", hint="Several tags go into one expression: 'TagA || TagB'.")
        found[name] = made
    return list(found.values())
