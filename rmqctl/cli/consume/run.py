"""rmqctl consume run: join a group as a member, and consume."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. Modules that
# ask the cluster are imported when the command runs, so that --help does not load them.
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.arguments import seconds_option
from rmqctl.cli.change.options import Confirm, Yes
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.option_blocks import without
from rmqctl.cli.output.text import note_to_stderr, printable
from rmqctl.cli.whatif.options import StrategyParameters
from rmqctl.errors import UsageError

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.consumer.batch import AnyListener

_MOST_VIRTUAL_NODES = 10_000
# The unique keys that --dedup remembers, at about 150 bytes each.
_DEDUP_COUNT = 100_000


class AckIndex(StrEnum):
    """For which batches an ack_index counts: for successful ones, as in RocketMQ, or for all."""

    ROCKETMQ = "rocketmq"
    EXACT = "exact"


HELP = """\b
Examples:
  rmqctl consume run my-group orders --print --yes
  rmqctl consume run my-group 'orders:created || paid' --handler consume.py:handle --workers 50 --yes
  rmqctl consume run my-group orders 'payments:SQL92:price > 5' --exec ./handle.sh --yes
  rmqctl consume run smoke-group orders --print --from earliest --count 1 --for 30s --yes
  rmqctl consume run my-group orders --print --strategy rooms-first --plugin rooms_first \\
      --strategy-option maxShare=1.2 --instance c1.east --yes

The command joins the group as any RocketMQ client does: the group rebalances, and other members give up queues to it.
It acknowledges the messages that it consumes. It sends failed messages back; after the last retry, they become dead
letters. It therefore requires --yes, or --confirm GROUP in a protected context. A readonly context refuses it.

\b
--handler FUNCTION  MODULE:FUNCTION or FILE.py:FUNCTION, plain (run in
                    threads) or async, called as FUNCTION(messages, context).
                    Returns "CONSUME_SUCCESS" or "RECONSUME_LATER", with
                    --orderly "SUCCESS" or "SUSPEND_CURRENT_QUEUE_A_MOMENT".
                    None and exceptions count as the second one.
--exec COMMAND      Run without a shell for each batch: the body on stdin (one
                    JSON line per message if there are several), and
                    RMQ_TOPIC, RMQ_MESSAGE_ID, RMQ_KEYS ... as variables.
                    Exit code 0 means success, 75 asks for a retry later.
--print             Show each message, like rmqctl message tail.

With --orderly, the messages of a queue are consumed in order, under a lock at its broker. What fails is consumed again
after 1s, before anything behind it, until it succeeds or --max-reconsume-times makes a dead letter of it.

All members of a group must use the same --strategy with the same options, and consume the same topics. Strategies:
averagely (RocketMQ's default), circle, consistent-hash, machine-room, machine-room-nearby, config, and those of
plugins. RocketMQ's names (AVG) also work. With config, this member consumes the queues that --queue names, of each
topic and of its retry topic, even if other members consume them too.

SIGTERM or Ctrl-C ends the command. It then consumes the pulled messages within --drain, commits offsets and leaves the
group. The exit code is 0, or 8 when messages or offsets are left, or when all messages failed. A second signal ends it
sooner (exit code 130) and reports the messages that are not acknowledged. If fewer than --count messages arrive within
--for, the exit code is 6; if they arrive but do not succeed, 8. A group that has offsets continues there, whatever
--from is; rmqctl offset reset moves them. --drain is shorter than the 30s that Kubernetes waits before it kills a
process: the rest is for the offsets.

--until-caught-up ends with 0 when all messages that were stored at the start, and the retries that were due, have been
consumed by this or other members; with 8 if some failed, or if --for ends first. --dedup recognises the unique keys of
the last 100,000 messages that this member consumed since its start. It cannot recognise what other members consumed.

Each request may use a third of --timeout."""


def command(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Consumer group to join.", show_default=False)],
    topic: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC[:EXPR]...", help="Topics, each with an optional filter.", show_default=False),
    ],
    handler: Annotated[str | None, typer.Option("--handler", metavar="FUNCTION", help="Call a function.")] = None,
    exec_: Annotated[str | None, typer.Option("--exec", metavar="COMMAND", help="Run a command.")] = None,
    print_: Annotated[bool, typer.Option("--print", help="Show each message.")] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Where a new group starts: latest, earliest, a time. [default: latest]",
        ),
    ] = None,
    orderly: Annotated[
        bool, typer.Option("--orderly", help="Consume each queue in order, as all members must do.")
    ] = False,
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, max=1024, help="Messages per batch.")] = 1,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", min=1, max=1024, help="Concurrent batches. [default: 20]")
    ] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="STRATEGY", help="Strategy to share queues.")
    ] = "averagely",
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", metavar="QUEUE", help="For config: broker-a:0, broker-a:0-3 or broker-a. Repeatable."),
    ] = None,
    strategy_option: Annotated[
        list[str] | None,
        typer.Option("--strategy-option", metavar="NAME=VALUE", help="Option for a plugin's strategy. Repeatable."),
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="FILE", help="Plugin with strategies or site resolvers. Repeatable."),
    ] = None,
    consume_timeout: Annotated[
        str, typer.Option("--consume-timeout", metavar="DURATION", help="Send messages back after this time.")
    ] = "15m",
    max_reconsume_times: Annotated[
        int,
        typer.Option(
            "--max-reconsume-times",
            metavar="N",
            min=-1,
            help="Retries before a dead letter; -1: 16, or no limit with --orderly.",
        ),
    ] = -1,
    delay_level: Annotated[
        int,
        typer.Option(
            "--delay-level", metavar="N", min=-1, help="Delay of retries; 0: by the broker, -1: dead letters."
        ),
    ] = 0,
    ack_index: Annotated[
        AckIndex, typer.Option("--ack-index", help="Whether ack_index also counts for failed batches (exact).")
    ] = AckIndex.EXACT,
    skip_older_than: Annotated[
        str | None,
        typer.Option("--skip-older-than", metavar="DURATION", help="Acknowledge older messages unread."),
    ] = None,
    skip_if_behind: Annotated[
        int | None,
        typer.Option("--skip-if-behind", metavar="N", min=1, help="Acknowledge unread all but the last N of a queue."),
    ] = None,
    dedup: Annotated[
        bool, typer.Option("--dedup", help="Acknowledge unread what this member consumed before.")
    ] = False,
    broadcast: Annotated[
        bool, typer.Option("--broadcast", help="Deliver every message to every member; store offsets locally.")
    ] = False,
    protect: Annotated[
        str, typer.Option("--protect", metavar="DURATION", help="Time before a new member counts for sharing.")
    ] = "0s",
    instance: Annotated[
        str | None,
        typer.Option("--instance", metavar="NAME", help="End of the client id, unique on this machine."),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Join even if a member has the same client id, or only one of the two consumes orderly.",
        ),
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="End after N messages succeeded.")
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End when the group has consumed what was stored at the start.")
    ] = False,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="End after this time.", show_default=False)
    ] = None,
    drain: Annotated[
        str, typer.Option("--drain", metavar="DURATION", help="Time limit to finish pulled messages at the end.")
    ] = "25s",
    confirm: Confirm = None,
    yes: Yes = False,
    *,
    options: Annotated[StrategyParameters, without("pop_share")],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.arguments import parse_queues
    from rmqctl.cli.change.consent import confirm as ask_whether
    from rmqctl.cli.change.consent import confirm_by_name
    from rmqctl.cli.output.body import BodyStyle
    from rmqctl.cli.output.message_item import MESSAGE_COLUMNS, message_name
    from rmqctl.cli.output.message_options import parse_when
    from rmqctl.cli.output.row_stream import RowStream
    from rmqctl.consumer.rules.subscriptions import parse_subscriptions
    from rmqctl.consumer.settings import ConsumerSettings
    from rmqctl.model.consumption import ConsumeFromWhere
    from rmqctl.model.group import BROADCASTING, CLUSTERING
    from rmqctl.model.names import require_new_name
    from rmqctl.text.times import Edge

    from .consume_run import ConsumeRun
    from .listeners import load_function, print_to, run_command
    from .strategy_choice import StrategyChoice, parse_custom

    invocation = Invocation(ctx)
    display = invocation.display
    if (handler is not None) + (exec_ is not None) + print_ != 1:
        raise UsageError(
            "Exactly one of --handler, --exec and --print is required.", hint="Choose what consumes the messages."
        )
    name = invocation.full_name(group)
    require_new_name(name)
    subscriptions = parse_subscriptions(topic, invocation.full_name)
    when = parse_when("--from", start or "latest")
    if options.virtual_nodes is not None and not 1 <= options.virtual_nodes <= _MOST_VIRTUAL_NODES:
        raise UsageError(f"--virtual-nodes must be 1 to {_MOST_VIRTUAL_NODES}.")
    sharing = StrategyChoice(
        strategy, options.given(), parse_queues(queue), parse_custom(strategy_option or ()), plugin or ()
    )
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
        delay_level=delay_level,
        ack_index_on_failure=ack_index is AckIndex.EXACT,
        skip_older_s=None if skip_older_than is None else seconds_option("--skip-older-than", skip_older_than),
        skip_behind_count=skip_if_behind,
        dedup_count=_DEDUP_COUNT if dedup else None,
        protect_s=seconds_option("--protect", protect),
        is_orderly=orderly,
    )
    excluded = {"--dedup": dedup, "--delay-level": delay_level, "--ack-index rocketmq": ack_index is AckIndex.ROCKETMQ}
    for option in [option for option, is_given in excluded.items() if orderly and is_given]:
        raise UsageError(
            f"--orderly and {option} exclude each other.", hint="A failed batch of a queue comes again first."
        )
    if count is not None and until_caught_up:
        raise UsageError("--count and --until-caught-up exclude each other.", hint="Use one of them, and --for.")
    if settings.consume_timeout_s == 0:
        raise UsageError("--consume-timeout must be greater than 0.")
    style = BodyStyle()
    running = ConsumeRun(
        settings, subscriptions, sharing.strategy, limit_s=None if for_ is None else seconds_option("--for", for_),
        count=count, drain_s=seconds_option("--drain", drain),
        is_from_given=start is not None, force=force, until_caught_up=until_caught_up,
        check=partial(sharing.require_possible, settings, [each.topic for each in subscriptions]),
        say=lambda sentence: note_to_stderr(printable(sentence)) if display.with_notes else None,
        warn=lambda sentence: note_to_stderr(f"rmqctl: {printable(sentence)}"),
        show_error=_show_error if invocation.is_debugging else None,
    )  # fmt: skip
    listener: AnyListener
    if handler is not None:
        listener = load_function(handler)
    elif exec_ is not None:
        listener = run_command(exec_, style, timeout_s=settings.consume_timeout_s, is_orderly=orderly)
    else:
        rows = RowStream("MessageList", MESSAGE_COLUMNS, message_name, display)
        listener = print_to(rows, style, running.fail, is_orderly=orderly)
    invocation.require_writable()
    if invocation.is_protected:
        confirm_by_name(name, given=confirm, may_ask=invocation.may_ask)
    else:
        plan = [f"Joins group {name}: the group rebalances, and messages consumed here are acknowledged."]
        if skip_older_than is not None or skip_if_behind is not None or dedup:
            plan.append("Messages that match a --skip option or --dedup are acknowledged without being consumed.")
        ask_whether(() if yes else plan, is_confirmed=yes, may_ask=invocation.may_ask)

    async def consume(client: "Client") -> int:
        return await running.run(client, listener)

    return invocation.ask(consume, is_service=True)


def _show_error(error: BaseException) -> None:
    """Show the traceback of a listener's error, from the listener on."""
    import traceback

    from rmqctl.consumer.reports.failures import listener_traceback

    for line in "".join(traceback.format_exception(type(error), error, listener_traceback(error))).splitlines():
        note_to_stderr(printable(line))
