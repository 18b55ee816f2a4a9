"""What broker drain and broker restore share: options, and what a drain does to groups."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from rmqctl.cli.change.options import exact_name
from rmqctl.cli.globals import TABLE_FORMATS
from rmqctl.errors import UnreachableError, UsageError
from rmqctl.text.names import one_of
from rmqctl.text.words import counted, listed

if TYPE_CHECKING:
    from rmqctl.changes.brokers.plan import PermissionRequest
    from rmqctl.changes.plan_parts import PlanReport
    from rmqctl.cli.change.options import Consent
    from rmqctl.cli.invocation import Invocation
    from rmqctl.client.core import Client
    from rmqctl.model.plan import Consequence, Plan, Route
    from rmqctl.whatif.readonly import Readonly

By = Annotated[
    str | None, typer.Option("--by", metavar="WAY", help="brokerPermission or wipeWritePerm. [default: see below]")
]


def permission_request(
    invocation: "Invocation", broker: str, by: str | None, consent: "Consent"
) -> "PermissionRequest":
    """Return what is requested of a broker, checked as far as that is possible without the cluster."""
    from rmqctl.changes.brokers.plan import PermissionRequest
    from rmqctl.cli.change.execution import check_consent
    from rmqctl.model.plan import Subject

    name = exact_name("broker", broker)
    check_consent(invocation, Subject("", broker=name), consent, is_config_change=True)
    way = None if by is None else _way(by)
    return PermissionRequest(name, way, asked="" if by is None else f"--by {by}", reason=consent.reason)


def _way(by: str) -> "Route":
    from rmqctl.model.plan import Route
    from rmqctl.whatif.readonly import RemovalMethod

    ways = {RemovalMethod.BROKER_PERMISSION: Route.BROKER_CONFIG, RemovalMethod.WIPE_WRITE_PERM: Route.NAME_SERVER}
    if by not in ways:
        raise UsageError(f"Unknown value for --by: {by!r}.", hint=one_of(RemovalMethod))
    return ways[RemovalMethod(by)]


async def with_effects(client: "Client", request: "PermissionRequest") -> "tuple[Readonly | None, PermissionRequest]":
    """Find out what removing the permission does to groups, and choose the way if none is requested.

    Returns no effects for a broker that does not answer, which can only be taken from the name servers' routes.
    """
    from rmqctl.changes.brokers.plan import ROUTES_ONLY_HINT
    from rmqctl.model.plan import Consequence, Route
    from rmqctl.whatif.readonly import RemovalMethod, choose_removal
    from rmqctl.whatif.readonly_live import fetch_readonly

    is_wipe = request.way is Route.NAME_SERVER
    way = RemovalMethod.WIPE_WRITE_PERM if is_wipe else RemovalMethod.BROKER_PERMISSION
    try:
        found = await fetch_readonly(client, request.broker_name, way=way)
    except UnreachableError as error:
        if error.hint is not None:  # the error of a name server, which has its own
            raise
        if not is_wipe:
            raise error.reworded(error.sentence, hint=ROUTES_ONLY_HINT) from None
        unknown = Consequence("EFFECT_UNKNOWN", f"What happens to groups is unknown: {error.sentence}")
        return None, replace(request, effects=(unknown,))
    if request.way is None:
        way, why = choose_removal(found)
        if way is RemovalMethod.WIPE_WRITE_PERM:
            found = await fetch_readonly(client, request.broker_name, way=way)
        request = replace(request, way=_way(way), why=why, is_chosen=True)
    # What is unknown about members is named as an effect, and stops no drain.
    blocking = [failure for failure in found.failures if not failure.what.startswith(("running info", "members of"))]
    return found, replace(request, effects=tuple(_effects(found)), failures=tuple(blocking))


def _effects(found: "Readonly") -> "Iterator[Consequence]":
    from rmqctl.model.plan import Consequence
    from rmqctl.model.progress import Unknown
    from rmqctl.whatif.readonly import ReadonlyVerdict, RemovalMethod, may_block

    yield from (Consequence(concern.code, concern.text) for concern in found.concerns)
    unknown = [effect for effect in found.effects if effect.verdict is ReadonlyVerdict.UNKNOWN]
    absent = [effect for effect in unknown if effect.why is Unknown.NO_MEMBERS]
    is_refused = found.way is RemovalMethod.BROKER_PERMISSION
    blocking = [effect.view.group for effect in absent if is_refused and may_block(effect)]
    if blocking:
        groups = listed(blocking, 5)
        text = f"If members of {groups} start, their first failed message blocks its queue: no other broker stores it."
        yield Consequence("GROUPS_WOULD_BLOCK", text)
    empty = [effect.view.group for effect in absent if effect.view.group not in blocking]
    if empty:
        groups = f"{counted(len(empty), 'group')} without members there: {listed(empty, 5)}"
        yield Consequence("NO_MEMBERS", f"Where failed messages would be stored is not known for {groups}.")
    others = [f"{effect.view.group} ({effect.why})" for effect in unknown if effect.why is not Unknown.NO_MEMBERS]
    if others:
        text = f"Where failed messages would be stored is unknown for {listed(others, 5)}."
        yield Consequence("EFFECT_UNKNOWN", text)


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


# What a saved plan to drain a broker has to name in the same words: groups or producers would stop, or may.
_GRAVE = frozenset(
    {"GROUPS_BLOCK", "GROUPS_WOULD_BLOCK", "ORDERLY_MIXED", "TOPICS_UNWRITABLE", "ONLY_BROKER", "EFFECT_UNKNOWN"}
)


def show_effects(invocation: "Invocation", found: "Readonly | None") -> None:
    """Show the effects on groups as whatif readonly does, above a plan. Scripts get them as consequences only."""
    from rmqctl.cli.output.render import render
    from rmqctl.cli.whatif.readonly import to_listing

    display = invocation.display
    if found is not None and found.effects and display.format in TABLE_FORMATS:
        page = replace(to_listing(found), notes=(), failures=())
        render(page, replace(display, columns=(), sort_keys=(), conditions=()))
