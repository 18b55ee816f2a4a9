"""What a saved plan must not change now: brokers that went missing or silent since it was made."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.brokers.tables import fetch_configs
from rmqctl.changes.configs.access import access_of
from rmqctl.changes.offsets.check import find_planned
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.plan import ConfigItem, Consequence, Plan, PlanItem, Route, is_config_change
from rmqctl.model.route import Absence, BrokerData
from rmqctl.rules.cluster_memory import master_missing
from rmqctl.rules.group_state import reason_of
from rmqctl.text.words import listed

from .plan_parts import GROUPS, PlanReport, is_harmless, new_id, reason_words, unseen_config, unseen_item


async def leave_out_unseen(client: Client, plan: Plan) -> PlanReport:
    """Return a new plan without the brokers that cannot be read now, and why; the same plan if all can be read.

    The rest of the plan is not checked here, but by the check of every plan. Raises the brokers' error when none of
    them answers.
    """
    if is_config_change(plan.operation):
        failures = list((await access_of(plan).find(client, tuple(plan.brokers), plan.created_at_ms)).failures)
        counts: dict[tuple[str, str], int] = {}
    else:
        failures, counts = await _find_failures(client, plan)
    lost = {failure.broker_name: failure for failure in reversed(failures) if failure.broker_name is not None}
    if not lost:
        return PlanReport(plan, ())
    left = replace(
        plan,
        id=new_id(client.clock.now_ms()),
        asked=f"{plan.asked} (plan {plan.id})".strip(),
        brokers={name: address for name, address in plan.brokers.items() if name not in lost},
        items=tuple(_unseen(item, lost) for item in plan.items),
        configs=tuple(_unseen_config(item, lost) for item in plan.configs),
        consequences=(*plan.consequences, _left_out(lost)),
    )
    topics = {item.mq.topic for item in left.items if item.route is not Route.UNSEEN}
    # The check compares the queues of all brokers; for brokers that are left out it gets their current numbers.
    kept = {place: count for place, count in plan.read_queue_counts.items() if place[1] not in lost}
    counts = {place: count for place, count in {**counts, **kept}.items() if place[0] in topics}
    return PlanReport(replace(left, read_queue_counts=counts), tuple(failures))


def _left_out(lost: Collection[str]) -> Consequence:
    text = f"{listed(sorted(lost))} cannot be read now: nothing will be changed there, and members there are unknown."
    return Consequence("LEFT_OUT", text)


async def _find_failures(client: Client, plan: Plan) -> tuple[list[Failure], dict[tuple[str, str], int]]:
    """Return why brokers of an offset plan cannot be changed now, and how many queues their routes list."""
    failures = await _find_missing(client, plan)
    missing = {failure.broker_name for failure in failures}
    try:
        found = await find_planned(client, replace(plan, items=tuple(_seen(plan, missing))))
    except NotFoundError:
        return failures, {}  # the check reports it
    tables = await fetch_configs(
        client, {name: found.brokers[name] for name in plan.configured_at if name in found.brokers}
    )
    failures += [each for each in found.failures if not is_harmless(each) and each.broker_name not in missing]
    failures += [Failure(name, "master", error) for name, error in sorted(client.silent_masters.items())]
    failures += [Failure(name, GROUPS, error) for name, error in sorted(tables.failed.items())]
    failures = [failure for failure in failures if failure.broker_name in plan.brokers]
    lost = {failure.broker_name for failure in failures}
    return failures, {place: count for place, count in found.read_queue_counts.items() if place[1] in lost}


async def _find_missing(client: Client, plan: Plan) -> list[Failure]:
    there = {broker.broker_name: broker for broker in (await fetch_cluster(client)).brokers}
    now_ms = client.clock.now_ms()
    errors: dict[str, RmqctlError] = {}
    for name in sorted(plan.brokers):
        # A broker that is not expected now existed when the plan was made.
        broker = there.get(name, BrokerData("", name, {}, Absence(plan.created_at_ms)))
        error = master_missing(broker, now_ms)
        if error is not None:
            errors[name] = error
    return [Failure(name, "offsets", error) for name, error in errors.items()]


def _seen(plan: Plan, missing: Collection[str | None]) -> list[PlanItem]:
    return [item for item in plan.items if item.mq.broker_name not in missing]


def _unseen(item: PlanItem, lost: Mapping[str, Failure]) -> PlanItem:
    failure = lost.get(item.mq.broker_name)
    if failure is None or item.route is Route.UNSEEN:
        return item
    return unseen_item(item.mq, reason_words(failure), reason=str(reason_of([failure.error])), before=item.before)


def _unseen_config(item: ConfigItem, lost: Mapping[str, Failure]) -> ConfigItem:
    failure = lost.get(item.broker_name)
    if failure is None or item.route is Route.UNSEEN:
        return item
    return unseen_config(item.broker_name, reason_words(failure))
