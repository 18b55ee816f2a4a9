"""Checks what a plan of configurations was made for again, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.changes.configs.rules.fields import differing_names, is_config_seen, setting_words
from rmqctl.changes.plan_parts import stale
from rmqctl.client.core import Client
from rmqctl.model.group import GroupState
from rmqctl.model.plan import ConfigItem, Plan

from .access import access_of
from .lookup import FoundConfig


async def check_config_plan(client: Client, plan: Plan, *, strict: bool) -> FoundConfig:
    """Return the current state. Raises StaleError when the plan is out of date, and what reading raises."""
    there = {broker.broker_name for broker in (await fetch_cluster(client)).brokers}
    gone = [f"Broker {name} is not registered." for name in plan.brokers if name not in there]
    if gone:
        raise stale(gone)
    access = access_of(plan)
    found = await access.find(client, tuple(plan.brokers), plan.created_at_ms)
    drift = [
        *_broker_drift(plan, found),
        *_config_drift(plan, found, access.what),
        *_member_drift(plan, found, strict=strict),
    ]
    if plan.items or plan.takes_offsets:
        drift += _offset_drift(plan, found)
    if drift:
        has_moved = any(plan.brokers[name] != broker.master_address for name, broker in found.brokers.items())
        raise stale(drift, has_moved=has_moved)
    return found


def _broker_drift(plan: Plan, found: FoundConfig) -> Iterator[str]:
    failed = {failure.broker_name: failure.error.sentence for failure in found.failures}
    for name, address in plan.brokers.items():
        if name not in found.brokers:
            yield f"Broker {name} cannot be read: {failed.get(name, 'it did not answer.')}"
        elif (now := found.brokers[name].master_address) != address:
            yield f"Broker {name} was at {address} and is at {now}: it may be another cluster."


def _config_drift(plan: Plan, found: FoundConfig, what: str) -> Iterator[str]:
    for item in plan.configs:
        now = found.fields(item.broker_name)
        if item.awaits is not None and is_config_seen(item.awaits, now):
            continue
        if item.broker_name in found.brokers:
            yield from _differing(item, now, what)


def _differing(item: ConfigItem, now: Mapping[str, Any] | None, what: str) -> Iterator[str]:
    name = item.broker_name
    if item.before is None or now is None:
        if item.before is not None:
            yield f"{name} had {what}, and no longer has it."
        elif now is not None:
            yield f"{name} did not have {what}, and now has it."
        return
    fields = differing_names(item.before, now)
    if fields:
        was, is_now = (", ".join(setting_words(config, fields)) for config in (item.before, now))
        yield f"{name} had {was}, and now has {is_now}."


def _member_drift(plan: Plan, found: FoundConfig, *, strict: bool) -> Iterator[str]:
    """Yield members that would undo the change, or with `strict` any other state."""
    is_going = plan.items or any(item.target is None for item in plan.configs)
    if is_going and any(found.members.get(name) for name in plan.brokers):
        yield "The group had no members, and now has some."
    elif (strict and plan.state is not found.state) or (
        is_going and found.unseen is not None and plan.state is GroupState.EMPTY
    ):
        yield f"The group was {plan.state} and is now {found.state}."


def _offset_drift(plan: Plan, found: FoundConfig) -> Iterator[str]:
    planned = {item.mq: item.before for item in plan.items}
    awaited = {item.mq: item.awaits.target for item in plan.items if item.awaits is not None}
    extra = [mq for mq in found.offsets if mq not in planned] if plan.takes_offsets else []
    for mq in (*planned, *extra):
        if mq.broker_name not in found.brokers:
            continue
        was, now = planned.get(mq), found.offsets.get(mq)
        if was != now and awaited.get(mq, was) != now:
            yield f"{mq}: its offset was {'none' if was is None else was} and is now {'none' if now is None else now}."
