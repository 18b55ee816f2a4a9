"""rmqctl offset undo: revert a change to a group."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.change.options import AssumeSameCluster, Consent
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.option_blocks import without

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.whatif.readonly import Readonly

HELP = """\b
Examples:
  rmqctl offset history
  rmqctl offset undo 20261121T200840-be3ab7     # an id from the history, or its prefix
  rmqctl offset undo receipt.json               # the output of a change with -o json

Restores the previous offsets of the queues that were changed or may have been. The plan shows which messages would be
redelivered or skipped. A queue that had no offset gets -1, which brokers and clients treat as "none", because RocketMQ
cannot delete a single offset; in a group that is online, such a queue is not changed.

After a change of a group's configuration, each broker gets back the previous values of the changed fields. A deleted
group gets back the offsets that were deleted with it.

A write that was not answered may still take effect within the next hour: the undo looks for it for up to 15 s and
reverts it. If it is not seen, the exit code is 9, and the undo can be run again. The plan, the check, the journal and
the exit codes are those of offset reset, and an undo can be undone."""


def command(
    ctx: typer.Context,
    receipt: Annotated[
        str,
        typer.Argument(metavar="RECEIPT", help="The id of a change, or a file with its receipt.", show_default=False),
    ],
    assume_same_cluster: AssumeSameCluster = False,
    *,
    consent: Annotated[Consent, without("expect_queues")],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.journal.journal import Journal
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.changes.undo import find_later, plan_change_undo, with_later_observations
    from rmqctl.cli.broker.permission import show_effects, with_undo_effects
    from rmqctl.cli.change.execution import check_consent, confirm_and_apply
    from rmqctl.cli.change.receipts import find_receipt
    from rmqctl.model.plan import Operation, is_config_change

    invocation = Invocation(ctx)
    if not consent.is_plan_only:
        invocation.require_writable()
    undone = find_receipt(receipt)
    is_config = is_config_change(undone.operation)
    check_consent(invocation, undone.subject, consent, is_config_change=is_config)
    with Journal() as journal:
        later = find_later(journal, undone)
        undone = with_later_observations(journal, undone)

    async def make(client: "Client") -> "tuple[Readonly | None, PlanReport]":
        planned = await plan_change_undo(
            client, undone, later, assume_offline=consent.assume_offline, assume_same_cluster=assume_same_cluster,
            reason=consent.reason,
        )  # fmt: skip
        if planned.plan.operation is not Operation.BROKER_DRAIN or not planned.plan.configs:
            return None, planned
        return await with_undo_effects(client, planned)

    found, planned = invocation.ask(make)
    show_effects(invocation, found)
    return confirm_and_apply(invocation, planned, consent)
