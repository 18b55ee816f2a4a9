"""Checks what a plan of offsets was made for again, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.admin.brokers.tables import fetch_configs
from rmqctl.admin.messages.time_search import fetch_message_at
from rmqctl.admin.results import Answers, all_or_failed, ask_all
from rmqctl.changes.offsets.rules.drift import (
    ConsumedCount,
    CurrentState,
    compared_times,
    count_moved,
    find_drift,
    is_seen,
)
from rmqctl.changes.offsets.rules.reset import item_today
from rmqctl.changes.offsets.rules.route import choose_route
from rmqctl.changes.offsets.rules.skips import SKIPS, describe_skips
from rmqctl.changes.plan_parts import broker_of, stale
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, StaleError
from rmqctl.model.group import GroupConfig
from rmqctl.model.plan import Operation, Plan, PlanItem, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import BrokerData
from rmqctl.rules.plan_consequences import CLIENTS_AHEAD, describe_ahead, narrowing
from rmqctl.rules.pop_handles import normal_topic

from .group_lookup import FoundGroup, find_group, find_stored


class PlanCheck(Struct, frozen=True):
    """The current offsets of a plan's queues, None without one, and how far a running group has advanced since.

    `brokers` are the plan's; `is_server_side` says by name which of them move clients to an offset themselves. `today`
    is the plan with what it would do now, for display only: the plan is applied as it was made. `places` are as in
    FoundGroup.
    """

    offsets: Mapping[MessageQueue, int | None]
    moved: ConsumedCount
    brokers: Mapping[str, BrokerData]
    is_server_side: Mapping[str, bool]
    languages: frozenset[str]
    today: Plan
    places: Mapping[MessageQueue, Collection[int]] = {}


async def find_planned(client: Client, plan: Plan) -> FoundGroup:
    """Read the part of the group that a plan is about. Raises what find_group raises."""
    # Name servers learn of a retry topic of pops up to 30 s late.
    named = {
        normal_topic(plan.group, item.mq.topic) if item.route is Route.POP_ACK else item.mq.topic
        for item in plan.items
        if item.route is not Route.UNSEEN
    }
    if plan.operation is Operation.OFFSET_DELETE:
        return await find_stored(client, plan.group)
    return await find_group(client, plan.group, tuple(sorted(named)))


async def check_plan(client: Client, plan: Plan, *, strict: bool) -> PlanCheck:
    """Return the current state. Raises StaleError when the plan is out of date, and what find_group raises."""
    try:
        found = await find_planned(client, plan)
    except NotFoundError as error:
        raise StaleError(f"The plan is out of date. {error.sentence}", hint=error.hint) from None
    found.require_settings(plan.brokers)
    tables = await fetch_configs(client, found.brokers if plan.configured_at else {})
    now = _now(plan, found, tables)
    _require_no_drift(plan, now, strict=strict)
    for name, silence in client.silent_masters.items():
        if name in plan.brokers:
            raise silence.reworded(f"The master of {name} does not answer; its slave's copy of the offsets may be old.")
    now = replace(now, store_times_ms=await _store_times_ms(client, compared_times(plan, now), found))
    _require_no_drift(plan, now, strict=strict)
    return PlanCheck(
        offsets=now.offsets,
        moved=count_moved(plan, now),
        brokers={name: found.brokers[name] for name in plan.brokers if name in found.brokers},
        is_server_side=found.is_server_side,
        languages=found.situation.languages,
        today=_today(plan, found),
        places=found.places,
    )


def _require_no_drift(plan: Plan, now: CurrentState, *, strict: bool) -> None:
    drift = find_drift(plan, now, strict=strict)
    if drift:
        has_moved = any(now.brokers.get(name, address) != address for name, address in plan.brokers.items())
        raise stale(drift, has_moved=has_moved)


async def _store_times_ms(client: Client, items: Collection[PlanItem], found: FoundGroup) -> dict[MessageQueue, int]:
    """Return when the message at each target was stored, by one pull per queue. Raises a broker's error.

    A message that was deleted, by retention or compaction, is left out.
    """
    addresses = {item.mq: client.require_master(broker_of(found.brokers, item.mq.broker_name)) for item in items}
    targets = {item.mq: item.target or 0 for item in items}
    answers = await ask_all(targets, lambda mq: fetch_message_at(client, addresses[mq], mq, targets[mq]))
    return {
        mq: message.stored_at_ms
        for mq, message in all_or_failed(answers).items()
        if message is not None and message.queue_offset == targets[mq]
    }


def _today(plan: Plan, found: FoundGroup) -> Plan:
    if plan.operation in (Operation.OFFSET_DELETE, Operation.CLEAN_EXPIRED):
        return plan  # a deletion has no numbers, and what is cleaned depends on the client that has it in flight
    items = tuple(
        item
        if item.mq not in found.rows or item.route is Route.UNSEEN or _is_awaiting(item, found)
        else item_today(
            item, found.rows[item.mq], found.places.get(item.mq, ()), is_consumed=found.is_consumed(item.mq.topic)
        )
        for item in plan.items
    )
    ahead = describe_ahead(items, [found.rows[item.mq] for item in items if item.mq in found.rows])
    others = [item for item in plan.consequences if item.code not in (CLIENTS_AHEAD, SKIPS)]
    skips = describe_skips(items, may_skip=plan.may_skip)
    filters = narrowing(found.filters, {item.mq.topic for item in items})
    return replace(plan, items=items, consequences=(*skips, *others, *ahead), filters=filters)


def _is_awaiting(item: PlanItem, found: FoundGroup) -> bool:
    """Return whether an item still waits for an earlier write, so that nothing has changed so far."""
    return item.awaits is not None and not is_seen(item.awaits, item.before, found.offsets.get(item.mq))


def _now(plan: Plan, found: FoundGroup, tables: Answers[str, dict[str, GroupConfig]]) -> CurrentState:
    # For a plan with direct writes to a group that may have members, the operator asserted that it has none.
    assume_offline = any(item.route is Route.BROKER_WRITE for item in plan.items)
    return CurrentState(
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
        lacking_config={name for name, table in tables.ok.items() if plan.group not in table},
        unread_config=tables.failed.keys(),
    )
