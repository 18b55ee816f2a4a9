"""Looks again at what a plan of offsets was made for, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, StaleError
from rmqctl.model.plan import Operation, Plan, Route
from rmqctl.model.queue import MessageQueue
from rmqctl.model.route import Broker
from rmqctl.rules.drift import Moved, Now, count_moved, find_drift
from rmqctl.rules.reset_route import choose_route

from .offset_found import Found, find_group, find_stored
from .plan_parts import stale


class Checked(Struct, frozen=True):
    """What a plan's queues hold now, None for none, and how far a group that runs has come since.

    `brokers` are the plan's, `is_server_side` those that send clients to an offset themselves.
    """

    offsets: Mapping[MessageQueue, int | None]
    moved: Moved
    brokers: Mapping[str, Broker]
    is_server_side: Mapping[str, bool]
    languages: frozenset[str]


async def check_plan(client: Client, plan: Plan, *, strict: bool) -> Checked:
    """Return what stands now. Raises StaleError when the plan no longer holds, and what find_group raises."""
    topics = tuple(sorted({item.mq.topic for item in plan.items if item.route is not Route.UNSEEN}))
    try:
        is_deletion = plan.operation is Operation.OFFSET_DELETE
        found = await (find_stored(client, plan.group) if is_deletion else find_group(client, plan.group, topics))
    except NotFoundError as error:
        raise StaleError(f"The plan no longer holds. {error.sentence}", hint=error.hint) from None
    found.require_settings(plan.brokers)
    now = _now(plan, found)
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
    )


def _now(plan: Plan, found: Found) -> Now:
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
    )
