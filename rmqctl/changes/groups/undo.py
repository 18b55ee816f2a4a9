"""Plans the undo of a change of a group's configuration, by its receipt."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rmqctl.changes.configs.lookup import FoundConfig, find_config, new_config_plan
from rmqctl.changes.configs.undo import require_changed, revert_configs
from rmqctl.changes.late_writes import awaited_writes, describe_awaited, describe_never_seen
from rmqctl.changes.plan_parts import NOT_LOOKED_UP, PlanReport, awaiting
from rmqctl.client.core import Client
from rmqctl.model.plan import UNDO_OPERATIONS, AwaitedWrite, ConfigItem, Consequence, Operation, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import Receipt, ReceiptItem
from rmqctl.text.words import counted

from .delete import deleted_offsets, describe_deletion, must_take_offsets, require_no_members
from .plan import find_effects


async def plan_group_undo(client: Client, receipt: Receipt, *, assume_offline: bool, reason: str | None) -> PlanReport:
    """Return the plan that configures a group as before, and restores the offsets that were deleted with it.

    Raises RefusedError if nothing was changed, or if members would store other offsets or create the group again; and
    what find_config raises.
    """
    offsets = [item for item in receipt.items if item.may_have_changed]
    changed = require_changed(receipt, also=bool(offsets))
    names = sorted({*changed, *(item.mq.broker_name for item in offsets)})
    found = await find_config(client, receipt.group, names, seen_ms=receipt.started_at_ms)
    now_ms = client.clock.now_ms()
    awaited, reverted = awaited_writes(receipt, now_ms), revert_configs(receipt, found, now_ms)
    operation = UNDO_OPERATIONS[receipt.operation]
    items, consequences = await _offsets_back(
        client, found, operation, reverted.certain, offsets, awaited, assume_offline=assume_offline
    )
    consequences += [
        *describe_awaited((*reverted.items, *items)),
        *describe_never_seen(reverted.never_seen, receipt.id),
    ]
    takes_offsets = any(item.target is None for item in items) or (
        operation is Operation.GROUP_DELETE and await must_take_offsets(client, found)
    )
    plan = new_config_plan(
        client, found, operation, reverted.items, items, consequences, asked=f"undo {receipt.id}", reason=reason,
        takes_offsets=takes_offsets,
    )  # fmt: skip
    return PlanReport(plan, found.failures)


async def _offsets_back(
    client: Client, found: FoundConfig, operation: Operation, configs: Collection[ConfigItem],
    changed: Collection[ReceiptItem], awaited: Mapping[MessageQueue | str, AwaitedWrite], *, assume_offline: bool,
) -> tuple[tuple[PlanItem, ...], list[Consequence]]:  # fmt: skip
    """Return the offsets that the undo changes, and its consequences."""
    if operation is Operation.GROUP_DELETE:
        require_no_members(found, found.brokers, assume_offline=assume_offline)
        # Offsets that the undone change had restored; offsets that the group has stored since are kept.
        with_offsets = bool(changed) and all(item.before is None for item in changed)
        items = deleted_offsets(found, sorted({item.mq.broker_name for item in changed})) if with_offsets else ()
        items += _awaiting(found, changed, awaited, Route.GROUP_CONFIG)
        return items, await describe_deletion(client, found, configs, with_offsets=with_offsets)
    effects = await find_effects(client, found, configs)
    back = tuple(
        PlanItem(
            item.mq, found.offsets.get(item.mq), item.before, Route.BROKER_WRITE, reasons=NOT_LOOKED_UP
        )
        for item in sorted(changed, key=lambda item: item.mq)
        if item.mq.broker_name in found.brokers
        and item.before is not None
        and found.offsets.get(item.mq) != item.before
    )  # fmt: skip
    late = _awaiting(found, changed, awaited, Route.BROKER_WRITE)
    if back or late:
        require_no_members(found, found.brokers, assume_offline=assume_offline)
    if back:
        text = f"Offsets of {counted(len(back), 'queue')} are restored: the next member resumes from them."
        effects.append(Consequence("OFFSETS_BACK", text))
    return (*back, *late), effects


def _awaiting(
    found: FoundConfig,
    changed: Collection[ReceiptItem],
    awaited: Mapping[MessageQueue | str, AwaitedWrite],
    route: Route,
) -> tuple[PlanItem, ...]:
    """Return the items of offsets that are as before, while their write may still take effect."""
    return tuple(
        awaiting(PlanItem(item.mq, item.before, item.before, route, reasons=NOT_LOOKED_UP), awaited[item.mq])
        for item in sorted(changed, key=lambda item: item.mq)
        if item.mq in awaited and item.mq.broker_name in found.brokers and found.offsets.get(item.mq) == item.before
    )
