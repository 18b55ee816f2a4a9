"""rmqctl offset reset: move a group to a time or an offset."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.change.options import (
    AssumeOffline,
    Confirm,
    Consent,
    DryRun,
    ExpectQueues,
    Partial,
    PlanFile,
    Reason,
    Strict,
    WaitStable,
    Yes,
    group_name,
    topic_names,
    wait_s,
)
from rmqctl.cli.input_file import read_input
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.message_options import Queues, parse_queues

if TYPE_CHECKING:
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl offset reset my-group --topic orders --to-time 2026-11-21T03:00Z
  rmqctl offset reset my-group --all-topics --by-duration 2h              # two hours back
  rmqctl offset reset my-group --topic orders --to-latest --yes           # skip the backlog
  rmqctl offset reset my-group --topic orders --queue broker-a:0-3 --to-offset 1200
  rmqctl offset reset my-group --topic orders --shift-by -100             # back by 100 messages in each queue
  rmqctl offset reset my-group --topic orders --to-earliest --dry-run     # only show the plan
  rmqctl offset reset my-group --topic orders --to-earliest --plan p.json
  rmqctl offset reset my-group --all-topics --from-file offsets.json

\b
Routes, chosen by the state of the group and shown in the plan (-o wide):
  BROKER_WRITE  the group is offline: the offset is stored at the broker
  SERVER_SIDE   the broker stores the offset and returns it to clients with
                their next pull (5.2.0 or later)
  CLIENT_PUSH   the broker notifies the clients, which stop for 10 s (4.9, or
                useServerSideResetOffset=false); their other queues resume
                from the stored offset, which can be 5 s old

Pull consumers and broadcasting groups ignore a reset, so it is refused for them.

The plan is shown first; without a terminal, add --yes. The plan is then checked again, applied and verified. If the
group is online, the command waits until its members resume from the new offsets (--wait-stable). Each step is journaled
before it is sent: offset history shows it, offset undo reverts it. Exit codes: 7 the plan is out of date, 8 some
queues were not changed, 9 changed but not confirmed."""


def command(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="A consumer group.", show_default=False)],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Reset this topic. May be repeated.")
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Reset all topics of the group.")] = False,
    queue: Queues = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time",
            metavar="TIME",
            help="To the first message stored at or after this time; -30m and now refer to the brokers' clocks.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration", metavar="TIME", help="Go back this long from the brokers' time, for example 2h or PT2H."
        ),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest message of each queue.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of each queue.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", help="To this offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Forward by N messages, or back with a negative N.")
    ] = None,
    to_current: Annotated[bool, typer.Option("--to-current", help="To the current stored offset.")] = False,
    to_group: Annotated[
        str | None, typer.Option("--to-group", metavar="GROUP", help="To the offsets of another group.")
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option(
            "--from-file", metavar="FILE", help="To the offsets of a file: JSON, Kafka's CSV, rpk's text; - for stdin."
        ),
    ] = None,
    with_retry: Annotated[bool, typer.Option("--with-retry", help="Reset the group's retry topic as well.")] = False,
    assume_offline: AssumeOffline = False,
    strict: Strict = False,
    wait_stable: WaitStable = None,
    partial: Partial = False,
    expect_queues: ExpectQueues = None,
    dry_run: DryRun = False,
    plan: PlanFile = None,
    reason: Reason = None,
    confirm: Confirm = None,
    yes: Yes = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.offsets.files import parse_offsets
    from rmqctl.changes.offsets.plan import plan_offsets
    from rmqctl.changes.offsets.targets import Wish
    from rmqctl.changes.plan_parts import Planned
    from rmqctl.cli.change.carry_out import carry_out, check_consent
    from rmqctl.cli.change.specs import Asked, parse_asked, resolve
    from rmqctl.errors import UsageError
    from rmqctl.model.plan import Operation

    invocation = Invocation(ctx)
    asked: Asked = parse_asked(
        to_time=to_time, by_duration=by_duration, to_earliest=to_earliest, to_latest=to_latest, to_offset=to_offset,
        shift_by=shift_by, to_current=to_current, to_group=to_group, from_file=from_file, topics=topic or (),
        all_topics=all_topics,
    )  # fmt: skip
    limit_s, choices = wait_s(wait_stable), parse_queues(queue)
    consent = Consent(yes=yes, dry_run=dry_run, plan_path=plan, confirm=confirm, partial=partial)
    check_consent(invocation, consent)
    name, topics = group_name(invocation, group), topic_names(invocation, topic)
    if asked.group is not None and group_name(invocation, asked.group) == name:
        raise UsageError(f"--to-group {name} is the group itself.", hint="Name another group.")
    file = None if asked.path is None else parse_offsets(read_input("--from-file", asked.path))
    if file is not None:
        file.settle_group(name)

    async def make(client: "Client") -> Planned:
        wish = Wish(
            Operation.OFFSET_RESET, asked.spec, topics, choices, with_retry=with_retry, assume_offline=assume_offline,
            expect_queues=expect_queues,
            asked=asked.spec.words, reason=reason,
        )  # fmt: skip
        return await plan_offsets(client, name, await resolve(client, invocation, asked, file, wish))

    planned = invocation.ask(make)
    return carry_out(invocation, planned, consent, strict=strict, wait_s=limit_s)
