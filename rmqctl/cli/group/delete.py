"""rmqctl group delete: delete a group, with or without its offsets."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer

from rmqctl.cli.arguments import Group
from rmqctl.cli.change.group_options import Brokers, request_words
from rmqctl.cli.change.options import Consent, group_name
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.option_blocks import without

HELP = """\b
Examples:
  rmqctl group delete my-group
  rmqctl group delete my-group --with-offsets      # also offsets of a group that is no longer configured
  rmqctl group delete my-group --broker broker-b   # only on this broker

The group must be offline: a running member makes the brokers create it again within seconds, with the defaults, and
stores its offsets again. Without --with-offsets the offsets are kept, and the next member of a group with this name
resumes from them. The retry and dead-letter topics are kept. The plan, the journal and the exit codes are those of
offset reset; offset undo restores the configuration, and the offsets that were deleted with it."""


def command(
    ctx: typer.Context,
    group: Group,
    with_offsets: Annotated[bool, typer.Option("--with-offsets", help="Delete all of its offsets as well.")] = False,
    broker: Brokers = None,
    *,
    consent: Annotated[Consent, without("strict", "wait_stable", "expect_queues")],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.groups.delete import plan_group_deletion
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.model.plan import Subject

    invocation = Invocation(ctx)
    name, brokers = group_name(invocation, group), tuple(broker or ())
    check_consent(invocation, Subject(name), consent, is_config_change=True)
    asked = request_words((), brokers, *["--with-offsets"] * with_offsets)
    planned = invocation.ask(
        lambda client: plan_group_deletion(
            client, name, brokers, with_offsets=with_offsets, assume_offline=consent.assume_offline, asked=asked,
            reason=consent.reason,
        )
    )  # fmt: skip
    return confirm_and_apply(invocation, planned, consent)
