"""rmqctl offset reset: move a group to a time or an offset."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.arguments import Group, Queues, parse_queues
from rmqctl.cli.change.options import Consent, group_name, topic_names
from rmqctl.cli.files import read_input
from rmqctl.cli.invocation import Invocation

from .reset_options import ResetOptions

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

--by-duration, --to-time with a time in the past, --to-earliest and a negative --shift-by mean to go back. A plan of
theirs that moves a queue forward past unread messages, or may do so, is refused without --allow-skip.

The plan is shown first; without a terminal, add --yes. The plan is then checked again, applied and verified. If the
group is online, the command waits until its members resume from the new offsets (--wait-stable). Each step is journaled
before it is sent: offset history shows it, offset undo reverts it. Exit codes: 7 the plan is out of date, 8 some
queues were not changed, 9 changed but not confirmed."""


def command(
    ctx: typer.Context,
    group: Group,
    queue: Queues = None,
    with_retry: Annotated[bool, typer.Option("--with-retry", help="Reset the group's retry topic as well.")] = False,
    allow_skip: Annotated[
        bool, typer.Option("--allow-skip", help="Allow a target back in time to skip unread messages.")
    ] = False,
    *,
    options: ResetOptions,
    consent: Consent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.offsets.plan import plan_offsets
    from rmqctl.changes.offsets.targets import ResetRequest
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.errors import UsageError
    from rmqctl.model.plan import Operation, Subject

    from .reset_target import parse_asked, resolve

    invocation = Invocation(ctx)
    asked = parse_asked(options)
    choices = parse_queues(queue)
    name, topics = group_name(invocation, group), topic_names(invocation, options.topic)
    check_consent(invocation, Subject(name), consent)
    if asked.group is not None and group_name(invocation, asked.group) == name:
        raise UsageError(f"--to-group {name} is the group itself.", hint="Name another group.")
    file = None
    if asked.path is not None:
        from rmqctl.changes.offsets.files import parse_offsets

        file = parse_offsets(read_input("--from-file", asked.path))
        file.settle_group(name)

    async def make(client: "Client") -> PlanReport:
        request = ResetRequest(
            Operation.OFFSET_RESET, asked.spec, topics, choices, with_retry=with_retry,
            allow_skip=allow_skip, assume_offline=consent.assume_offline, expect_queues=consent.expect_queues,
            asked=asked.spec.words, reason=consent.reason,
        )  # fmt: skip
        return await plan_offsets(client, name, await resolve(client, invocation, asked, file, request))

    planned = invocation.ask(make)
    return confirm_and_apply(invocation, planned, consent)
