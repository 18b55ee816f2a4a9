"""Plans the way back from a change of offsets, by its receipt."""

from __future__ import annotations

from msgspec.structs import replace

from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError
from rmqctl.model.plan import Consequence, Operation, Plan, Route
from rmqctl.model.receipt import Receipt, Result
from rmqctl.rules.reset import Aim, Spec
from rmqctl.rules.words import counted, listed

from .offset_plan import Planned, Wish, plan_offsets


async def plan_undo(client: Client, receipt: Receipt, *, assume_offline: bool, reason: str | None) -> Planned:
    """Return the plan that stores again what was stored before, where something was or may have been changed.

    Raises RefusedError where nothing was, and what plan_offsets raises.
    """
    given = {item.mq: item.before for item in receipt.items if item.may_have_changed}
    if not given and any(item.route is Route.POP_ACK for item in receipt.items):
        sentence = f"{receipt.id} can't be undone: brokers cannot take back the acknowledgement of a popped message."
        raise RefusedError(sentence, hint="The copy of each message is redelivered through the group's retry topic.")
    if not given:
        raise RefusedError(f"There is nothing to undo in {receipt.id}: no queue was changed.")
    wish = Wish(
        Operation.OFFSET_UNDO, Spec(Aim.BEFORE), tuple(sorted({mq.topic for mq in given})), given=given,
        assume_offline=assume_offline, asked=receipt.id, reason=reason,
    )  # fmt: skip
    try:
        planned = await plan_offsets(client, receipt.group, wish)
    except NotFoundError as error:
        raise error.reworded(f"{receipt.id} can't be undone: {error.sentence}") from None
    if not planned.plan.items and planned.unseen is None:
        sentence = f"There is nothing to undo in {receipt.id}: its queues are as before, or not there."
        raise RefusedError(sentence)
    return replace(planned, plan=_with_unseen(planned.plan, receipt))


def _with_unseen(plan: Plan, receipt: Receipt) -> Plan:
    """Name the queues of which a write was never seen: there is nothing to take back yet, and may be later."""
    unknown = {item.mq for item in receipt.items if item.result is Result.UNKNOWN}
    unseen = [item.mq for item in plan.items if item.mq in unknown and item.before == item.target]
    if not unseen:
        return plan
    text = (
        f"The broker has not carried out the write of {counted(len(unseen), 'queue')} so far: {listed(unseen)}. "
        "If it does later, undo it again."
    )
    return replace(plan, consequences=(*plan.consequences, Consequence("NOT_SEEN_YET", text)))
