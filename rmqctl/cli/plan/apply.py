"""rmqctl apply: apply a saved plan, unless the cluster has drifted since."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import Annotated

import typer
from msgspec.structs import replace

from rmqctl.cli.change.options import AssumeSameCluster, Consent
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.option_blocks import without

HELP = """\b
Examples:
  rmqctl apply plan.json
  rmqctl apply plan.json --yes -o json > receipt.json
  rmqctl apply plan.json --strict                 # treat any change since the plan was made as drift
  rmqctl apply plan.json --dry-run                # only check for drift

The cluster is read first, and the plan is shown with current numbers. On drift nothing is changed, and the exit code
is 7. Drift is any of these: a changed group state, consume type, message model, queue count or broker address; a
missing broker; an offset that moved back or past its target; a recreated topic; a deleted target; a group that is no
longer configured. The offsets of a running group may advance. If the group has no members, any other offset is drift
too, except the target: the same file therefore finishes an interrupted run.

With --partial, a broker that is missing or silent is skipped instead: its items are NOT_ATTEMPTED, and the exit code is
8. A plan of clean-expired is always applied this way. Confirmation, verification and the journal are those of offset
reset."""


def command(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Plan file; - is stdin.", show_default=False)],
    assume_same_cluster: AssumeSameCluster = False,
    *,
    consent: Annotated[Consent, without("assume_offline", "expect_queues", "plan_path", "reason")],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.apply import refresh_plan
    from rmqctl.changes.documents.decode import parse_plan
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.changes.same_cluster import follow_plan
    from rmqctl.changes.unseen_parts import leave_out_unseen
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.cli.files import read_input
    from rmqctl.model.plan import Operation, is_config_change

    invocation = Invocation(ctx)
    plan, _ = parse_plan(read_input("FILE", file), file)
    is_config = is_config_change(plan.operation)
    check_consent(invocation, plan.subject, consent, is_config_change=is_config)
    if assume_same_cluster:
        plan = invocation.ask(lambda client: follow_plan(client, plan))
    if plan.operation is Operation.BROKER_DRAIN:
        from rmqctl.cli.broker.permission import require_same_effects

        invocation.ask(lambda client: require_same_effects(client, plan))
    planned = PlanReport(plan, ())
    if plan.operation is Operation.CLEAN_EXPIRED:
        # Each queue is cleaned on its own, as by clean-expired itself.
        consent = replace(consent, partial=True)
    if consent.partial:
        planned = invocation.ask(lambda client: leave_out_unseen(client, plan))
    today = planned.plan
    if consent.dry_run or not is_config:
        today = invocation.ask(lambda client: refresh_plan(client, planned.plan, strict=consent.strict))
    return confirm_and_apply(invocation, planned, consent, today=today)
