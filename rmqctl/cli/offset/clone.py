"""rmqctl offset clone: start a group at the offsets of another one."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.arguments import Topics
from rmqctl.cli.change.options import Consent, group_name, topic_names
from rmqctl.cli.invocation import Invocation

if TYPE_CHECKING:
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl offset clone my-group new-group
  rmqctl offset clone my-group new-group --topic orders

Copies the stored offsets of the first group to the second, queue by queue. Queues without an offset of the first group
are not changed; with --partial, neither are queues that could not be read. The second group must exist: create it with
rmqctl group create. The plan, the check, the journal and the exit codes are those of offset reset."""


def command(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The group to copy from.", show_default=False)],
    group: Annotated[str, typer.Argument(metavar="TO", help="The group to change.", show_default=False)],
    topic: Topics = None,
    *,
    consent: Consent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.offsets.given_offsets import offsets_of_group
    from rmqctl.changes.offsets.plan import plan_offsets
    from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
    from rmqctl.changes.offsets.targets import ResetRequest
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.errors import UsageError
    from rmqctl.model.plan import Operation, Subject

    invocation = Invocation(ctx)
    origin, name = group_name(invocation, source), group_name(invocation, group)
    if origin == name:
        raise UsageError(f"FROM and TO are the same group, {name}.")
    check_consent(invocation, Subject(name), consent)
    topics = topic_names(invocation, topic)

    async def make(client: "Client") -> PlanReport:
        given = await offsets_of_group(client, origin, topics)
        request = ResetRequest(
            Operation.OFFSET_CLONE, TargetSpec(TargetKind.GIVEN), assume_offline=consent.assume_offline,
            expect_queues=consent.expect_queues, asked=f"from {origin}", reason=consent.reason,
        )  # fmt: skip
        return await plan_offsets(client, name, given.added_to(request))

    planned = invocation.ask(make)
    return confirm_and_apply(invocation, planned, consent)
