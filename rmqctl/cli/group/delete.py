"""rmqctl group delete: delete a group, with or without its offsets."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer

from rmqctl.cli.change.group_options import Brokers, asked_words
from rmqctl.cli.change.options import (
    AssumeOffline,
    Confirm,
    Consent,
    DryRun,
    Partial,
    PlanFile,
    Reason,
    Yes,
    group_name,
)
from rmqctl.cli.invocation import Invocation

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
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.", show_default=False)],
    with_offsets: Annotated[bool, typer.Option("--with-offsets", help="Delete all of its offsets as well.")] = False,
    broker: Brokers = None,
    assume_offline: AssumeOffline = False,
    partial: Partial = False,
    dry_run: DryRun = False,
    plan: PlanFile = None,
    reason: Reason = None,
    confirm: Confirm = None,
    yes: Yes = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.groups.delete import plan_group_deletion
    from rmqctl.cli.change.carry_out import carry_out, check_consent

    invocation = Invocation(ctx)
    consent = Consent(yes=yes, dry_run=dry_run, plan_path=plan, confirm=confirm, partial=partial)
    check_consent(invocation, consent, is_group_change=True)
    name, brokers = group_name(invocation, group), tuple(broker or ())
    asked = asked_words((), brokers, *["--with-offsets"] * with_offsets)
    planned = invocation.ask(
        lambda client: plan_group_deletion(
            client, name, brokers, with_offsets=with_offsets, assume_offline=assume_offline, asked=asked, reason=reason
        )
    )
    return carry_out(invocation, planned, consent, strict=False, wait_s=0)
