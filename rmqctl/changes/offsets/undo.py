"""Plans the undo of a change of offsets, by its receipt."""

from __future__ import annotations

from msgspec.structs import replace

from rmqctl.changes.late_writes import awaited_writes, describe_awaited, describe_never_seen
from rmqctl.changes.offsets.rules.reset import CONTINUED, THERE, TargetKind, TargetSpec
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError
from rmqctl.model.plan import Operation, Route
from rmqctl.model.receipt import Receipt, Result

from .plan import plan_offsets
from .targets import ResetRequest


async def plan_undo(client: Client, receipt: Receipt, *, assume_offline: bool, reason: str | None) -> PlanReport:
    """Return the plan that restores the former offsets of all queues that were, or may have been, changed.

    Raises RefusedError if nothing was changed, and what plan_offsets raises.
    """
    changed = [item for item in receipt.items if item.may_have_changed]
    given = {item.mq: item.before for item in changed}
    if not given and any(item.route is Route.POP_ACK for item in receipt.items):
        sentence = f"{receipt.id} cannot be undone: the acknowledgement of a popped message is final."
        raise RefusedError(sentence, hint="The copy of each message is redelivered through the group's retry topic.")
    if not given:
        # A group that was moved back and has consumed up to its former offset is where it was.
        done = [
            item
            for item in receipt.items
            if item.result in (Result.CONFIRMED, Result.UNKNOWN) and item.note not in (THERE, CONTINUED)
        ]
        reason = "no queue was changed"
        if any(item.before != item.target for item in done):
            reason = "when it ended, the group was at its former offsets again"
        elif done:
            reason = "it stored the offsets that were stored before, and redelivers what members had consumed past them"
        raise RefusedError(f"There is nothing to undo in {receipt.id}: {reason}.")
    awaited = awaited_writes(receipt, client.clock.now_ms())
    request = ResetRequest(
        Operation.OFFSET_UNDO, TargetSpec(TargetKind.BEFORE), tuple(sorted({mq.topic for mq in given})), given=given,
        awaits={item.mq: awaited[item.mq] for item in changed if item.mq in awaited},
        assume_offline=assume_offline, asked=receipt.id, reason=reason,
    )  # fmt: skip
    try:
        planned = await plan_offsets(client, receipt.group, request)
    except NotFoundError as error:
        raise error.reworded(f"{receipt.id} cannot be undone: {error.sentence}") from None
    items = planned.plan.items
    if not items and planned.unseen is None:
        sentence = f"There is nothing to undo in {receipt.id}: its queues are as before, or do not exist."
        raise RefusedError(sentence)
    unknown = {item.mq for item in receipt.items if item.result is Result.UNKNOWN}
    never_seen = [
        item.mq for item in items if item.mq in unknown and item.awaits is None and item.before == item.target
    ]
    said = (*describe_awaited(items), *describe_never_seen(never_seen, receipt.id))
    return replace(planned, plan=replace(planned.plan, consequences=(*planned.plan.consequences, *said)))
