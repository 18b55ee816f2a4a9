"""rmqctl offset delete: delete stored offsets."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.arguments import Group
from rmqctl.cli.change.options import Consent, group_name, topic_names
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.option_blocks import without

if TYPE_CHECKING:
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl offset delete my-group --topic old-orders
  rmqctl offset delete my-group --leftovers            # offsets of deleted topics

RocketMQ has no request to delete an offset: -1 is stored, which brokers and clients treat as "none". The group must be
offline. The next member starts as in a new group. To delete a whole group, use rmqctl group delete. The plan, the
check, the journal and the exit codes are those of offset reset."""


def command(
    ctx: typer.Context,
    group: Group,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Delete the offsets of this topic. Repeatable."),
    ] = None,
    leftovers: Annotated[bool, typer.Option("--leftovers", help="Delete the offsets of deleted topics.")] = False,
    *,
    consent: Annotated[Consent, without("expect_queues")],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.offsets.delete import plan_deletion
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.errors import UsageError
    from rmqctl.model.plan import Subject

    invocation = Invocation(ctx)
    if not topic and not leftovers:
        raise UsageError("No offsets are selected.", hint="Add --topic TOPIC or --leftovers.")
    name, topics = group_name(invocation, group), topic_names(invocation, topic)
    check_consent(invocation, Subject(name), consent)

    async def make(client: "Client") -> PlanReport:
        return await plan_deletion(
            client, name, topics, leftovers=leftovers, assume_offline=consent.assume_offline,
            asked=" ".join([*(f"--topic {each}" for each in topics), *["--leftovers"] * leftovers]),
            reason=consent.reason,
        )  # fmt: skip

    planned = invocation.ask(make)
    return confirm_and_apply(invocation, planned, consent)
