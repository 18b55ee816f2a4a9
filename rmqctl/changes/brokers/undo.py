"""Plans the undo of draining or restoring a broker, by its receipt."""

from __future__ import annotations

from msgspec.structs import replace

from rmqctl.changes.configs.broker_lookup import find_broker
from rmqctl.changes.configs.lookup import new_config_plan
from rmqctl.changes.configs.undo import require_changed, revert_configs
from rmqctl.changes.late_writes import describe_awaited, describe_never_seen
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.client.core import Client
from rmqctl.model.plan import UNDO_OPERATIONS, Consequence, Operation, Route
from rmqctl.model.receipt import Receipt

from .plan import require_setting
from .rules.permission import describe_drain, describe_other, describe_restore, describe_state, reverted


async def plan_broker_undo(client: Client, receipt: Receipt, *, reason: str | None) -> PlanReport:
    """Return the plan that gives a broker its former permission.

    Raises RefusedError if nothing was changed, and what find_broker raises.
    """
    name = receipt.subject.name
    changed = require_changed(receipt)[name]
    operation = UNDO_OPERATIONS[receipt.operation]
    before = changed.before or {}
    found = await find_broker(client, name, seen_ms=receipt.started_at_ms)
    if receipt.route is Route.BROKER_CONFIG:
        require_setting(found)
    # What the change did not see is none of its business, and what cannot be read now is not changed.
    before = {key: value for key, value in before.items() if key in found.fields}
    found = replace(found, fields={key: found.fields[key] for key in before})
    undone = revert_configs(receipt, found.config, client.clock.now_ms(), route=receipt.route)
    is_open = operation is Operation.BROKER_RESTORE
    items = [
        item
        if item.awaits is not None
        else reverted(name, before, found.fields, is_open=is_open, has_closed=bool(found.closed))
        for item in undone.items
    ]
    consequences: list[Consequence] = []
    for item in items:
        follows = describe_restore(item, found.closed) if is_open else describe_drain(item, found.broker)
        consequences += [*follows, *describe_other(item, before)]
    plan = new_config_plan(
        client, found.config, operation, items,
        consequences=[
            *consequences, *describe_state(found.fields, found.registers), *describe_awaited(items),
            *describe_never_seen(undone.never_seen, receipt.id),
        ],
        asked=f"undo {receipt.id}", reason=reason, route=items[0].route if items else receipt.route,
    )  # fmt: skip
    return PlanReport(plan, found.failures)
