"""rmqctl offset import: set a group to the offsets of a file."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.arguments import Topics
from rmqctl.cli.change.options import Consent, group_name, topic_names
from rmqctl.cli.files import read_input
from rmqctl.cli.invocation import Invocation

if TYPE_CHECKING:
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl offset import offsets.json                    # to the group of the export
  rmqctl offset import offsets.csv --group my-group    # CSV names no group
  rmqctl offset import - --group my-group < kafka.csv

Accepts the output of offset export and offset show -o json, Kafka's CSV (topic,partition,offset) and rpk's text (topic
partition offset). If a topic is on one broker, its queues need no broker name. CSV with other columns needs a heading
that names them.

A file of another group or cluster is rejected, and so is a file with an invalid line. To copy the offsets of another
group, use offset clone, or a file that names no group. Queues that could not be read when the file was written count as
not read: --partial imports the rest. The plan, the check, the journal and the exit codes are those of offset reset."""


def command(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="File with the offsets; - for stdin.", show_default=False)
    ],
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="GROUP", help="The group to change; required if the file names none."),
    ] = None,
    topic: Topics = None,
    *,
    consent: Consent,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.offsets.files import parse_offsets
    from rmqctl.changes.offsets.given_offsets import offsets_of_file
    from rmqctl.changes.offsets.plan import plan_offsets
    from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
    from rmqctl.changes.offsets.targets import ResetRequest
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.model.plan import Operation, Subject

    invocation = Invocation(ctx)
    if not consent.is_plan_only:
        invocation.require_writable()
    offsets = parse_offsets(read_input("FILE", file))
    # A file has the full name of the group; the command line has a name within the namespace.
    name = offsets.settle_group(None if group is None else group_name(invocation, group))
    check_consent(invocation, Subject(name), consent)
    topics = topic_names(invocation, topic)

    async def make(client: "Client") -> PlanReport:
        given = await offsets_of_file(client, offsets, topics)
        request = ResetRequest(
            Operation.OFFSET_IMPORT, TargetSpec(TargetKind.GIVEN), assume_offline=consent.assume_offline,
            expect_queues=consent.expect_queues, asked=f"from {file}", reason=consent.reason,
        )  # fmt: skip
        return await plan_offsets(client, name, given.added_to(request))

    planned = invocation.ask(make)
    return confirm_and_apply(invocation, planned, consent)
