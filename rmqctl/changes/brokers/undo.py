"""Plans the undo of draining or restoring a broker, by its receipt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from rmqctl.admin.brokers.rules.permission import SETTING
from rmqctl.changes.configs.broker_lookup import FoundBroker, find_broker
from rmqctl.changes.configs.lookup import new_config_plan
from rmqctl.changes.configs.undo import require_changed, revert_configs
from rmqctl.changes.late_writes import describe_awaited, describe_never_seen
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.client.core import Client
from rmqctl.model.plan import UNDO_OPERATIONS, ConfigItem, Consequence, Operation, Route
from rmqctl.model.receipt import Receipt

from .plan import require_open, require_setting
from .rules.permission import describe_drain, describe_other, describe_restore, describe_state, reverted


async def plan_broker_undo(client: Client, receipt: Receipt, *, reason: str | None) -> PlanReport:
    """Return the plan that gives a broker its former permission.

    Raises RefusedError if nothing was changed, and what find_broker raises.
    """
    name = receipt.subject.name
    changed = require_changed(receipt)[name]
    operation = UNDO_OPERATIONS[receipt.operation]
    target = changed.target or {}
    before = {key: value for key, value in (changed.before or {}).items() if value != target.get(key)}
    found = await find_broker(client, name, seen_ms=receipt.started_at_ms)
    if receipt.route is Route.BROKER_CONFIG:
        require_setting(found)
    # What the change did not see is none of its business, and what cannot be read now is not changed.
    before = {key: value for key, value in before.items() if key in found.fields}
    own = {SETTING: found.fields[SETTING]} if SETTING in found.fields else {}
    found = replace(found, fields={**own, **{key: found.fields[key] for key in before}})
    undone = revert_configs(receipt, found.config, client.clock.now_ms(), route=receipt.route)
    is_open = operation is Operation.BROKER_RESTORE
    items = [item if item.awaits is not None else _reverted(found, before, is_open=is_open) for item in undone.items]
    consequences: list[Consequence] = []
    for item in items:
        follows = describe_restore(item, found.closed) if is_open else describe_drain(item, found.broker)
        consequences += [*follows, *describe_other(item, before)]
    plan = new_config_plan(
        client, found.config, operation, items,
        consequences=[
            *consequences, *describe_state(found.fields, found.registers, client.name_servers),
            *describe_awaited(items), *describe_never_seen(undone.never_seen, receipt.id),
        ],
        asked=f"undo {receipt.id}", reason=reason, route=items[0].route if items else receipt.route,
    )  # fmt: skip
    return PlanReport(plan, found.failures)


def _reverted(found: FoundBroker, before: Mapping[str, Any], *, is_open: bool) -> ConfigItem:
    """Return what the undo makes of a broker. Raises RefusedError if its routes alone would not open it."""
    item = reverted(found.broker.broker_name, before, found.fields, is_open=is_open, has_closed=bool(found.closed))
    if is_open and item.route is Route.NAME_SERVER:
        require_open(found)
    return item
