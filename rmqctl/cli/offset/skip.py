"""rmqctl offset skip: skip a backlog."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.arguments import Group, Queues, Topics, parse_queues
from rmqctl.cli.change.options import Consent, group_name, topic_names
from rmqctl.cli.invocation import Invocation

if TYPE_CHECKING:
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl offset skip my-group                          # all topics, to the end of each queue
  rmqctl offset skip my-group --topic orders --yes
  rmqctl offset skip my-group --topic orders --queue broker-a:3
  rmqctl offset skip my-group --with-retry             # also messages that wait for a retry

Skipped messages are never consumed; messages that clients have already pulled may still be. The plan, the check, the
journal and the exit codes are those of offset reset."""


def command(
    ctx: typer.Context,
    group: Group,
    topic: Topics = None,
    queue: Queues = None,
    with_retry: Annotated[bool, typer.Option("--with-retry", help="Skip the group's retry topic as well.")] = False,
    *,
    consent: Consent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.offsets.plan import plan_offsets
    from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
    from rmqctl.changes.offsets.targets import ResetRequest
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.model.plan import Operation, Subject

    invocation = Invocation(ctx)
    name = group_name(invocation, group)
    check_consent(invocation, Subject(name), consent)
    request = ResetRequest(
        Operation.OFFSET_SKIP, TargetSpec(TargetKind.LATEST), topic_names(invocation, topic),
        parse_queues(queue), with_retry=with_retry, assume_offline=consent.assume_offline,
        expect_queues=consent.expect_queues, asked="to the end", reason=consent.reason,
    )  # fmt: skip

    async def make(client: "Client") -> PlanReport:
        return await plan_offsets(client, name, request)

    planned = invocation.ask(make)
    return confirm_and_apply(invocation, planned, consent)
