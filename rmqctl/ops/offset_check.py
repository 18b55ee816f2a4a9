"""Looks again at what a plan of offsets was made for, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.group_names import fetch_configs
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, StaleError
from rmqctl.model.plan import Operation, Plan, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker
from rmqctl.rules.drift import Moved, Now, count_moved, find_drift
from rmqctl.rules.plan_consequences import CLIENTS_AHEAD, describe_ahead, narrowing
from rmqctl.rules.pop_handles import normal_topic
from rmqctl.rules.reset_route import choose_route

from .offset_found import Found, find_group, find_stored
from .plan_items import item_today
from .plan_parts import stale


class Checked(Struct, frozen=True):
    """What a plan's queues hold now, None for none, and how far a group that runs has come since.

    `brokers` are the plan's, `is_server_side` those that send clients to an offset themselves. `today` is the plan with
    what it would do now, to be shown: it is applied as it was made.
    """

    offsets: Mapping[MessageQueue, int | None]
    moved: Moved
    brokers: Mapping[str, Broker]
    is_server_side: Mapping[str, bool]
    languages: frozenset[str]
    today: Plan


async def check_plan(client: Client, plan: Plan, *, strict: bool) -> Checked:
    """Return what stands now. Raises StaleError when the plan no longer holds, and what find_group raises."""
    # Name servers learn of a retry topic of pops up to 30 s late.
    named = {
        normal_topic(plan.group, item.mq.topic) if item.route is Route.POP_ACK else item.mq.topic
        for item in plan.items
        if item.route is not Route.UNSEEN
    }
    topics = tuple(sorted(named))
    try:
        is_deletion = plan.operation is Operation.OFFSET_DELETE
        found = await (find_stored(client, plan.group) if is_deletion else find_group(client, plan.group, topics))
    except NotFoundError as error:
        raise StaleError(f"The plan no longer holds. {error.sentence}", hint=error.hint) from None
    found.require_settings(plan.brokers)
    now = _now(plan, found, await _lacking_config(client, plan, found))
    drift = find_drift(plan, now, strict=strict)
    if drift:
        has_moved = any(now.brokers.get(name, address) != address for name, address in plan.brokers.items())
        raise stale(drift, has_moved=has_moved)
    for name, silence in client.silent_masters.items():
        if name in plan.brokers:
            raise silence.reworded(f"The master of {name} does not answer, and its slave's copy of offsets can be old.")
    return Checked(
        offsets=now.offsets,
        moved=count_moved(plan, now),
        brokers={name: found.brokers[name] for name in plan.brokers if name in found.brokers},
        is_server_side=found.is_server_side,
        languages=found.situation.languages,
        today=_today(plan, found),
    )


async def _lacking_config(client: Client, plan: Plan, found: Found) -> set[str]:
    """Return the plan's brokers that do not have the group configured any more."""
    if not plan.configured_at:
        return set()
    tables = await fetch_configs(client, found.brokers)
    return {name for name in plan.configured_at if name in tables.ok and plan.group not in tables.ok[name]}


def _today(plan: Plan, found: Found) -> Plan:
    if not found.rows or plan.operation is Operation.CLEAN_EXPIRED:
        return plan  # deletions tell no numbers, and what is cleaned depends on who has it in hand
    items = tuple(
        item_today(item, found.rows[item.mq], is_consumed=found.is_consumed(item.mq.topic))
        if item.mq in found.rows and item.route is not Route.UNSEEN
        else item
        for item in plan.items
    )
    ahead = describe_ahead(items, [found.rows[item.mq] for item in items if item.mq in found.rows])
    others = [item for item in plan.consequences if item.code != CLIENTS_AHEAD]
    filters = narrowing(found.filters, {item.mq.topic for item in items})
    return replace(plan, items=items, consequences=(*others, *ahead), filters=filters)


def _now(plan: Plan, found: Found, lacking_config: Collection[str]) -> Now:
    # A plan for a group that may have members was made with the operator's word that it has none.
    assume_offline = any(item.route is Route.BROKER_WRITE for item in plan.items)
    return Now(
        state=found.situation.state,
        consume_type=found.situation.consume_type,
        message_model=found.situation.message_model,
        brokers={name: broker.master_address or "" for name, broker in found.brokers.items()},
        read_queue_counts=found.read_queue_counts,
        offsets={item.mq: found.offsets[item.mq] for item in plan.items if item.mq in found.offsets},
        routes={
            name: choose_route(
                found.situation, assume_offline=assume_offline, is_server_side=found.is_server_side.get(name, False)
            )
            for name in found.brokers
        },
        bounds={
            mq: (row.min_offset, row.max_offset)
            for mq, row in found.rows.items()
            if row.min_offset is not None and row.max_offset is not None
        },
        lacking_config=lacking_config,
    )
