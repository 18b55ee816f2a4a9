"""What broker drain and broker restore share: options, and what a drain does to groups."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from rmqctl.cli.change.options import exact_name
from rmqctl.cli.globals import TABLE_FORMATS
from rmqctl.errors import UnreachableError

if TYPE_CHECKING:
    from rmqctl.changes.brokers.plan import PermissionRequest
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.cli.change.options import Consent
    from rmqctl.cli.invocation import Invocation
    from rmqctl.client.core import Client
    from rmqctl.model.plan import Plan, Route
    from rmqctl.whatif.readonly import Readonly, RemovalMethod

By = Annotated[
    str | None, typer.Option("--by", metavar="WAY", help="brokerPermission or wipeWritePerm. [default: see below]")
]
# What a saved plan to drain a broker has to name in the same words: groups or producers would stop, or may.
_GRAVE = frozenset(
    {"GROUPS_BLOCK", "GROUPS_WOULD_BLOCK", "ORDERLY_MIXED", "TOPICS_UNWRITABLE", "ONLY_BROKER", "EFFECT_UNKNOWN"}
)


def permission_request(
    invocation: "Invocation", broker: str, by: str | None, consent: "Consent"
) -> "PermissionRequest":
    """Return what is requested of a broker, checked as far as that is possible without the cluster."""
    from rmqctl.changes.brokers.plan import PermissionRequest
    from rmqctl.cli.change.execution import check_consent
    from rmqctl.cli.whatif.readonly import removal_method
    from rmqctl.model.plan import Subject

    name = exact_name("broker", broker)
    check_consent(invocation, Subject("", broker=name), consent, is_config_change=True)
    way = None if by is None else _ways()[removal_method(by)]
    return PermissionRequest(name, way, asked="" if by is None else f"--by {by}", reason=consent.reason)


def _ways() -> "dict[RemovalMethod, Route]":
    from rmqctl.model.plan import Route
    from rmqctl.whatif.readonly import RemovalMethod

    return {RemovalMethod.BROKER_PERMISSION: Route.BROKER_CONFIG, RemovalMethod.WIPE_WRITE_PERM: Route.NAME_SERVER}


async def with_effects(client: "Client", request: "PermissionRequest") -> "tuple[Readonly | None, PermissionRequest]":
    """Find out what removing the permission does to groups, and choose the way if none is requested.

    Returns no effects for a broker that does not answer, which can only be taken from the name servers' routes.
    """
    from rmqctl.changes.brokers.plan import ROUTES_ONLY_HINT
    from rmqctl.model.plan import Consequence, Route
    from rmqctl.whatif.readonly_concerns import find_unknown_effects, is_about_members
    from rmqctl.whatif.readonly_live import fetch_readonly

    requested = next((way for way, route in _ways().items() if route is request.way), None)
    try:
        found = await fetch_readonly(client, request.broker_name, way=requested)
    except UnreachableError as error:
        if error.hint is not None:  # the error of a name server, which has its own
            raise
        if request.way is not Route.NAME_SERVER:
            raise error.reworded(error.sentence, hint=ROUTES_ONLY_HINT) from None
        unknown = Consequence("EFFECT_UNKNOWN", f"What happens to groups is unknown: {error.sentence}")
        return None, replace(request, effects=(unknown,))
    if request.way is None:
        request = replace(request, way=_ways()[found.way], why=found.why, is_chosen=True)
    concerns = (*found.concerns, *find_unknown_effects(found))
    # What is unknown about members is named as an effect, and stops no drain.
    blocking = [failure for failure in found.failures if not is_about_members(failure)]
    effects = tuple(Consequence(concern.code, concern.text) for concern in concerns)
    return found, replace(request, effects=effects, failures=tuple(blocking))


async def with_undo_effects(client: "Client", planned: "PlanReport") -> "tuple[Readonly | None, PlanReport]":
    """Add to the plan of an undo that drains a broker what this does to groups."""
    found, request = await with_effects(client, _request_of(planned.plan))
    plan = replace(planned.plan, consequences=(*request.effects, *planned.plan.consequences))
    return found, replace(planned, plan=plan, failures=(*planned.failures, *request.failures))


async def require_same_effects(client: "Client", plan: "Plan") -> None:
    """Raise StaleError when a saved plan to drain a broker does not name what it would now do to groups."""
    from rmqctl.changes.plan_parts import stale

    _, request = await with_effects(client, _request_of(plan))
    if new := [each.text for each in request.effects if each.code in _GRAVE and each not in plan.consequences]:
        raise stale(new)


def _request_of(plan: "Plan") -> "PermissionRequest":
    from rmqctl.changes.brokers.plan import PermissionRequest

    return PermissionRequest(plan.subject.name, plan.route)


def show_effects(invocation: "Invocation", found: "Readonly | None") -> None:
    """Show the effects on groups as whatif readonly does, above a plan. Scripts get them as consequences only."""
    display = invocation.display
    if found is None or not found.effects or display.format not in TABLE_FORMATS:
        return
    from rmqctl.cli.output.render import render
    from rmqctl.cli.whatif.readonly import to_listing

    page = replace(to_listing(found), notes=(), failures=())
    render(page, replace(display, columns=(), sort_keys=(), conditions=()))
