"""Plans that remove write permission from a broker, or give it back."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from rmqctl.admin.brokers.rules.permission import setting_of
from rmqctl.changes.configs.broker_lookup import FoundBroker, find_broker
from rmqctl.changes.configs.lookup import new_config_plan
from rmqctl.changes.configs.rules.fields import differing_names
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.client.core import Client
from rmqctl.errors import RefusedError
from rmqctl.model.failure import Failure
from rmqctl.model.plan import ConfigItem, Consequence, Operation, Route
from rmqctl.model.topic import WRITE
from rmqctl.text.words import listed

from .rules.permission import (
    changed_permission,
    choose_restoring,
    describe_drain,
    describe_restore,
    describe_state,
    describe_way,
    is_drained,
)

ROUTES_ONLY_HINT = "To change only the name servers' routes: --by wipeWritePerm --partial"


class PermissionRequest(Struct, frozen=True):
    """The broker to drain or restore; `way` is BROKER_CONFIG or NAME_SERVER, and None to choose one.

    `why` is why this way was chosen, as the end of a sentence; `is_chosen`: by rmqctl, not by the operator. `effects`
    and `failures` are what was found about groups before, for a drain.
    """

    broker_name: str
    way: Route | None = None
    why: str = "as requested with --by"
    is_chosen: bool = False
    asked: str = ""
    reason: str | None = None
    effects: tuple[Consequence, ...] = ()
    failures: tuple[Failure, ...] = ()


async def plan_drain(client: Client, request: PermissionRequest) -> PlanReport:
    """Return the plan that removes write permission from a broker; by its own setting if no way is chosen.

    With a chosen way, a broker that name servers keep from producers already is left as it is.

    Raises the broker's error when its own setting is to be changed and cannot be read, and what find_broker raises.
    """
    found = await find_broker(client, request.broker_name)
    way = request.way or Route.BROKER_CONFIG
    if request.is_chosen and is_drained(found.fields):
        way = Route.NAME_SERVER
    if way is Route.BROKER_CONFIG:
        require_setting(found)
    item = changed_permission(request.broker_name, found.fields, way, is_open=False)
    consequences = [
        describe_way(way, request.why, is_open=False),
        *request.effects,
        *describe_drain(item, found.broker),
    ]
    return _planned(client, found, Operation.BROKER_DRAIN, item, consequences, request)


async def plan_restore(client: Client, request: PermissionRequest) -> PlanReport:
    """Return the plan that gives write permission back to a broker, by the way that is found best if none is chosen.

    Raises as plan_drain().
    """
    found = await find_broker(client, request.broker_name)
    way, why = (request.way, request.why) if request.way else choose_restoring(found.fields, found.closed)
    if way is Route.BROKER_CONFIG:
        require_setting(found)
    else:
        require_open(found)
    item = changed_permission(request.broker_name, found.fields, way, is_open=True)
    consequences = [describe_way(way, why, is_open=True), *describe_restore(item, found.closed)]
    return _planned(client, found, Operation.BROKER_RESTORE, item, consequences, request)


def require_open(found: FoundBroker) -> None:
    """Raise RefusedError if routes alone do not open a broker as it is, or would open more."""
    name, setting = found.broker.broker_name, setting_of(found.fields)
    hint = f"To give the permission back: rmqctl broker restore {name}"
    if setting is not None and not setting & WRITE:
        sentence = f"{name} has brokerPermission={setting}: with open routes, it would still reject messages."
        raise RefusedError(sentence, hint=hint)
    if found.closed:
        sentence = f"addWritePerm also opens topics that {name} itself closes: {listed(found.closed, 5)}."
        raise RefusedError(sentence, hint=hint)


def require_setting(found: FoundBroker) -> None:
    """Raise the broker's error if its setting could not be read."""
    if setting_of(found.fields) is None:
        error = next(failure.error for failure in found.failures if failure.broker_name is not None)
        raise error.reworded(error.sentence, hint=error.hint or ROUTES_ONLY_HINT)


def _planned(
    client: Client, found: FoundBroker, operation: Operation, item: ConfigItem, consequences: Sequence[Consequence],
    request: PermissionRequest,
) -> PlanReport:  # fmt: skip
    # With the same setting, a broker registers its topics again, with their own permissions.
    is_registered = operation is Operation.BROKER_RESTORE and request.way is Route.BROKER_CONFIG
    is_change = is_registered or bool(differing_names(item.before, item.target))
    state = describe_state(found.fields, found.registers, client.name_servers)
    plan = new_config_plan(
        client, found.config, operation, [item] if is_change else [],
        consequences=[*(consequences if is_change else ()), *state], asked=request.asked, reason=request.reason,
        route=item.route,
    )  # fmt: skip
    return PlanReport(plan, (*found.failures, *request.failures))
