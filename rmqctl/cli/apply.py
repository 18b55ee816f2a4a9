"""rmqctl apply: do what a saved plan says, if it still holds."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer

from rmqctl.cli.change.options import (
    AssumeSameCluster,
    Confirm,
    Consent,
    DryRun,
    Partial,
    Strict,
    WaitStable,
    Yes,
    wait_s,
)
from rmqctl.cli.invocation import Invocation

HELP = """\b
Examples:
  rmqctl apply plan.json
  rmqctl apply plan.json --yes -o json > receipt.json
  rmqctl apply plan.json --strict                 # any change since the plan is drift
  rmqctl apply plan.json --dry-run                # only look whether it still holds

The cluster is read again first, and the plan is shown with today's numbers. A group that runs may have come further; a
queue that went back or went over its target, another way of consuming, other queues or brokers, a topic that was
created again, a deleted target or a group that is no longer configured are drift: nothing is changed, and the exit code
is 7. With --partial a broker that is missing or silent now is left out instead: its items are NOT_ATTEMPTED, and the
exit code is 8. For a group without members any other offset is drift, except the target itself: the same file finishes
a run that broke off. Then as with offset reset."""


def command(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The plan; - is stdin.", show_default=False)],
    strict: Strict = False,
    assume_same_cluster: AssumeSameCluster = False,
    wait_stable: WaitStable = None,
    partial: Partial = False,
    dry_run: DryRun = False,
    confirm: Confirm = None,
    yes: Yes = False,
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    from rmqctl.cli.change.carry_out import carry_out, check_consent
    from rmqctl.cli.input_file import read_input
    from rmqctl.ops.apply import look_again
    from rmqctl.ops.documents import parse_plan
    from rmqctl.ops.offset_plan import Planned
    from rmqctl.ops.same_cluster import follow_plan
    from rmqctl.ops.unseen_now import leave_out_unseen
    from rmqctl.rules.group_changes import is_group_change

    invocation = Invocation(ctx)
    limit_s = wait_s(wait_stable)
    plan, _ = parse_plan(read_input("FILE", file), file)
    consent = Consent(yes=yes, dry_run=dry_run, confirm=confirm, partial=partial)
    check_consent(invocation, consent, is_group_change=is_group_change(plan.operation))
    if assume_same_cluster:
        plan = invocation.ask(lambda client: follow_plan(client, plan))
    planned = Planned(plan, ())
    if partial:
        planned = invocation.ask(lambda client: leave_out_unseen(client, plan))
    today = planned.plan
    if dry_run or not is_group_change(plan.operation):
        today = invocation.ask(lambda client: look_again(client, planned.plan, strict=strict))
    return carry_out(invocation, planned, consent, strict=strict, wait_s=limit_s, today=today)
