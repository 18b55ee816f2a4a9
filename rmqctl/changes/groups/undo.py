"""Plans the undo of a change of a group's configuration, by its receipt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rmqctl.changes.groups.rules.fields import differing_names, taken_back
from rmqctl.changes.late_writes import awaited_writes, describe_awaited, describe_never_seen
from rmqctl.changes.plan_parts import NOT_LOOKED_UP, PlanReport, awaiting, awaiting_config
from rmqctl.client.core import Client
from rmqctl.errors import RefusedError
from rmqctl.model.plan import UNDO_OPERATIONS, AwaitedWrite, ConfigItem, Consequence, Operation, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, ReceiptItem, Result
from rmqctl.text.words import counted

from .config_lookup import FoundConfig, changed_configs, find_config, new_config_plan
from .delete import deleted_offsets, describe_deletion, must_take_offsets, require_no_members
from .plan import find_effects


async def plan_group_undo(client: Client, receipt: Receipt, *, assume_offline: bool, reason: str | None) -> PlanReport:
    """Return the plan that configures a group as before, and restores the offsets that were deleted with it.

    Raises RefusedError if nothing was changed, or if members would store other offsets or create the group again; and
    what find_config raises.
    """
    changed = changed_configs(receipt)
    offsets = [item for item in receipt.items if item.may_have_changed]
    names = sorted({*changed, *(item.mq.broker_name for item in offsets)})
    if not names:
        raise RefusedError(f"There is nothing to undo in {receipt.id}: no broker was changed.")
    found = await find_config(client, receipt.group, names, seen_ms=receipt.started_at_ms)
    awaited = awaited_writes(receipt, client.clock.now_ms())
    configs, left = [], []
    for name, item in changed.items():
        if name not in found.brokers:
            continue
        now, target = found.fields(name), _before(item, found.fields(name))
        if not _is_so(now, target):
            configs.append(ConfigItem(name, now, target))
        elif name in awaited:
            configs.append(awaiting_config(name, now, awaited[name]))
        elif item.result is Result.UNKNOWN:
            left.append(name)
    operation = UNDO_OPERATIONS[receipt.operation]
    items, consequences = await _offsets_back(
        client, found, operation, [item for item in configs if item.awaits is None], offsets, awaited,
        assume_offline=assume_offline,
    )  # fmt: skip
    consequences += [*describe_awaited((*configs, *items)), *describe_never_seen(left, receipt.id)]
    takes_offsets = any(item.target is None for item in items) or (
        operation is Operation.GROUP_DELETE and await must_take_offsets(client, found)
    )
    plan = new_config_plan(
        client, found, operation, configs, items, consequences, asked=f"undo {receipt.id}", reason=reason,
        takes_offsets=takes_offsets,
    )  # fmt: skip
    return PlanReport(plan, found.failures)


def _before(item: ConfigReceiptItem, now: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what a broker is to have: in a configuration that existed, only the changed fields are reverted."""
    if item.before is None or item.target is None or now is None:
        return item.before
    return taken_back(item.before, item.target, now)


def _is_so(now: Mapping[str, Any] | None, target: Mapping[str, Any] | None) -> bool:
    return now is target if now is None or target is None else not differing_names(now, target)


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
