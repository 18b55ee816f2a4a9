"""Plans the undo of a change of a topic, by its receipt."""

from __future__ import annotations

from rmqctl.changes.configs.lookup import find_topic, new_config_plan
from rmqctl.changes.configs.undo import require_changed, revert_configs
from rmqctl.changes.late_writes import describe_awaited, describe_never_seen
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.client.core import Client
from rmqctl.model.plan import UNDO_OPERATIONS, Consequence, Operation, Route
from rmqctl.model.receipt import Receipt

from .effects import find_effects


async def plan_topic_undo(client: Client, receipt: Receipt, *, reason: str | None) -> PlanReport:
    """Return the plan that gives a topic its former settings, creates it again, or deletes it.

    Raises RefusedError if nothing was changed, and what find_topic raises.
    """
    topic = receipt.subject.name
    changed = require_changed(receipt)
    found = await find_topic(client, receipt.subject, topic, changed, seen_ms=receipt.started_at_ms)
    reverted = revert_configs(receipt, found, client.clock.now_ms(), route=Route.TOPIC_CONFIG)
    effects, failures = await find_effects(client, topic, found, reverted.certain)
    if receipt.operation is Operation.TOPIC_DELETE and reverted.certain:
        text = "The topic is created again, empty: its messages and the groups' offsets are not restored."
        effects.append(Consequence("EMPTY", text))
    consequences = [
        *effects,
        *describe_awaited(reverted.items),
        *describe_never_seen(reverted.never_seen, receipt.id),
    ]
    plan = new_config_plan(
        client, found, UNDO_OPERATIONS[receipt.operation], reverted.items, consequences=consequences,
        asked=f"undo {receipt.id}", reason=reason, route=Route.TOPIC_CONFIG,
    )  # fmt: skip
    return PlanReport(plan, (*found.failures, *failures))
