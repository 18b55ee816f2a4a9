"""Applies a plan of any kind. Each kind is imported when a plan has it: a command needs one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqctl.client.duplicates import require_distinct
from rmqctl.model.names import require_no_system_group
from rmqctl.model.plan import Operation, is_config_change

if TYPE_CHECKING:
    from rmqctl.changes.journal.journal import Journal
    from rmqctl.client.core import Client
    from rmqctl.model.plan import Plan
    from rmqctl.model.receipt import ReceiptReport, Who


async def apply_plan(
    client: Client, plan: Plan, plan_text: str, plan_sha256: str, journal: Journal, who: Who, *, strict: bool,
    wait_s: float | None, report: Callable[[str], None],
) -> ReceiptReport:  # fmt: skip
    """Apply a plan. `report` is called with a sentence about what is being waited for.

    Nothing is written when the plan is out of date (StaleError), its subject cannot be read, its group is RocketMQ's
    own (UsageError), or several brokers have the name of one that it changes (RefusedError). Later failures are in the
    receipt, item by item. One writer at a time: the caller holds the group's lock.
    """
    require_no_system_group(plan.group)
    await require_distinct(client, plan.brokers)
    if plan.topic is not None:
        await _check_topic(client, plan)
    if is_config_change(plan.operation):
        from rmqctl.changes.configs.apply import apply_configs

        return await apply_configs(client, plan, plan_text, plan_sha256, journal, who, strict=strict, report=report)
    if plan.operation is Operation.MESSAGE_RESEND:
        from rmqctl.changes.resend.apply import apply_resend

        return await apply_resend(client, plan, plan_text, plan_sha256, journal, who, report=report)
    if plan.operation is Operation.CLEAN_EXPIRED:
        from rmqctl.changes.clean_expired.apply import apply_cleaning as apply
    else:
        from rmqctl.changes.offsets.apply import apply_offsets as apply
    return await apply(client, plan, plan_text, plan_sha256, journal, who, strict=strict, wait_s=wait_s, report=report)


async def refresh_plan(client: Client, plan: Plan, *, strict: bool) -> Plan:
    """Return a plan with what it would do now, for display; nothing is written.

    Raises StaleError when it is out of date, and what reading the group raises.
    """
    if is_config_change(plan.operation):
        from rmqctl.changes.configs.check import check_config_plan

        await check_config_plan(client, plan, strict=strict)
        if plan.topic is not None:
            await _check_topic(client, plan)
        return plan
    if plan.operation is Operation.MESSAGE_RESEND:
        return plan  # checked when it is applied
    from rmqctl.changes.offsets.check import check_plan

    return (await check_plan(client, plan, strict=strict)).today


async def _check_topic(client: Client, plan: Plan) -> None:
    """Raise StaleError when a topic's plan would now delete or cut off messages that it does not name."""
    from rmqctl.changes.topics.losses import require_foreseen

    await require_foreseen(client, plan)
