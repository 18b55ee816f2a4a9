"""Checks whether the brokers of a plan or receipt are the current ones; brokers may have moved."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.client.core import Client
from rmqctl.errors import RefusedError
from rmqctl.model.plan import Consequence, Plan
from rmqctl.model.receipt import Receipt

from .plan_parts import new_id

MOVED_HINT = "Name the other cluster with -n or --context; if the broker only moved, add --assume-same-cluster."


async def find_moved(client: Client, brokers: Mapping[str, str], whose: str, *, assume: bool) -> dict[str, str]:
    """Return, by name, the new addresses of a change's brokers that have another address now.

    `assume`: such brokers have moved; otherwise raises RefusedError for them. Always raises RefusedError if none of the
    brokers exists. `whose` is the change's id.
    """
    found = await fetch_cluster(client)
    there = {broker.broker_name: broker.master_address for broker in found.brokers}
    if not there.keys() & brokers.keys():
        sentence = f"{whose} is of another cluster: this one has none of its brokers ({', '.join(sorted(brokers))})."
        raise RefusedError(sentence, hint="Name the other cluster with -n or --context.")
    moved = {
        name: now
        for name, address in sorted(brokers.items())
        if (now := there.get(name)) is not None and now != address
    }
    if moved and not assume:
        name = next(iter(moved))
        sentence = f"{whose} may be of another cluster: {name} was at {brokers[name]} and is now at {moved[name]}."
        raise RefusedError(sentence, hint=MOVED_HINT)
    return moved


def moved_consequences(brokers: Mapping[str, str], moved: Mapping[str, str]) -> tuple[Consequence, ...]:
    """Return the consequences that state which brokers are assumed to have moved."""
    return tuple(
        Consequence("MOVED", f"Broker {name} was at {brokers[name]} and is now at {now}: it is assumed to be the same.")
        for name, now in moved.items()
    )


async def follow_plan(client: Client, plan: Plan) -> Plan:
    """Return a plan for the current addresses of its brokers; a new plan if any broker moved."""
    moved = await find_moved(client, plan.brokers, plan.id, assume=True)
    if not moved:
        return plan
    return replace(
        plan,
        id=new_id(client.clock.now_ms()),
        brokers={**plan.brokers, **moved},
        asked=f"{plan.asked} (plan {plan.id})".strip(),
        consequences=(*plan.consequences, *moved_consequences(plan.brokers, moved)),
    )


async def follow_receipt(client: Client, receipt: Receipt, *, assume: bool) -> tuple[Receipt, tuple[Consequence, ...]]:
    """Return a receipt with the current addresses of its brokers, and the consequences of that assumption."""
    moved = await find_moved(client, receipt.brokers, receipt.id, assume=assume)
    return replace(receipt, brokers={**receipt.brokers, **moved}), moved_consequences(receipt.brokers, moved)
