"""Plans changes of a group's configuration: each broker's copy is read, and written whole with the changed fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from rmqctl.admin.results import failed_by_name, not_found
from rmqctl.changes.configs.lookup import FoundConfig, find_config, find_own_topics, new_config_plan
from rmqctl.changes.configs.rules.fields import (
    ConfigChanges,
    changed,
    default_config,
)
from rmqctl.changes.configs.settings import (
    Configs,
    changed_items,
    describe_differing,
    describe_left_alone,
    require_equal,
    require_known,
)
from rmqctl.changes.groups.rules.effects import describe_effects
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError, RmqctlError
from rmqctl.model.names import RETRY_PREFIX, require_new_name
from rmqctl.model.plan import ConfigItem, Consequence, Operation, Route
from rmqctl.text.names import closest


class ConfigRequest(Struct, frozen=True):
    """What is to be set in a group, at these brokers; at all if none is named."""

    group: str
    changes: ConfigChanges
    broker_names: tuple[str, ...] = ()
    asked: str = ""
    reason: str | None = None


async def plan_creation(client: Client, request: ConfigRequest, source: str | None) -> PlanReport:
    """Return the plan that creates a group, with the defaults or as a copy of `source`, and with the given fields.

    Raises UsageError for an invalid name or field, RefusedError if the group exists with another configuration,
    NotFoundError for a source that does not exist, and what find_config raises.
    """
    require_new_name(request.group)
    found = await find_config(client, request.group, request.broker_names)
    _require_fields(found, request.changes)
    if source is not None:
        _require_source(found, source)
    targets = {name: changed(_beginning(found, name, source), request.changes) for name in found.brokers}
    there = {name: fields for name in found.brokers if (fields := found.fields(name)) is not None}
    require_equal(found.subject, there, targets)
    configs = [ConfigItem(name, None, target) for name, target in targets.items() if name not in there]
    consequences = [
        *(Consequence("LEFT_ALONE", f"{name} already has the group with this configuration.") for name in there),
        *await find_effects(client, found, configs),
        *_leftovers(found, configs),
        *_forbidden_stay(found, source),
    ]
    return _planned(client, found, Operation.GROUP_CREATE, configs, consequences, request)


async def plan_update(client: Client, request: ConfigRequest) -> PlanReport:
    """Return the plan that sets some fields of a group, and keeps the others as each broker has them.

    Raises UsageError for a field that a broker does not know, NotFoundError for a group that does not exist, and what
    find_config raises.
    """
    found = await find_config(client, request.group, request.broker_names)
    there = {name: fields for name in found.brokers if (fields := found.fields(name)) is not None}
    if not there:
        raise _unknown(found, request.group)
    _require_fields(found, request.changes)
    targets = {name: changed(fields, request.changes) for name, fields in there.items()}
    configs = changed_items(there, targets, Route.GROUP_CONFIG)
    consequences = [
        *describe_left_alone(there, configs),
        *_not_configured(found, there),
        *await find_effects(client, found, configs),
        *describe_differing(targets),
    ]
    return _planned(client, found, Operation.GROUP_UPDATE, configs, consequences, request)


def _planned(
    client: Client, found: FoundConfig, operation: Operation, configs: list[ConfigItem],
    consequences: list[Consequence], request: ConfigRequest,
) -> PlanReport:  # fmt: skip
    plan = new_config_plan(
        client, found, operation, configs, consequences=consequences, asked=request.asked, reason=request.reason
    )
    return PlanReport(plan, found.failures)


def _require_fields(found: FoundConfig, changes: ConfigChanges) -> None:
    """Raise UsageError for a field that a broker would silently drop."""
    for name in found.brokers:
        require_known(name, changes.names - found.known_fields(name))


def _require_source(found: FoundConfig, source: str) -> None:
    lacking = [name for name in found.brokers if found.fields(name, source) is None]
    if len(lacking) == len(found.brokers):
        raise _unknown(found, source)
    if lacking:
        sentence = f"{', '.join(lacking)} has no configuration of {source} to copy."
        raise RefusedError(sentence, hint="Name the brokers that are to create the group with --broker.")


def _beginning(found: FoundConfig, name: str, source: str | None) -> Mapping[str, Any]:
    fields = None if source is None else found.fields(name, source)
    return default_config(found.known_fields(name)) if fields is None else fields


def _unknown(found: FoundConfig, group: str) -> RmqctlError:
    """Return the error for a group that no broker has."""
    names = {name for table in found.tables.values() for name in table}
    if group == found.group and found.offsets and not found.failures:
        sentence = f"Group {group} is not configured; only its offsets are left."
        hint = f"rmqctl group create {group} creates it; rmqctl group delete {group} --with-offsets deletes the rest."
        return NotFoundError("Group", group).reworded(sentence, hint=hint)
    error = NotFoundError("Group", group, suggestions=closest(group, names - {group}))
    return not_found(error, failed_by_name(found.failures))


async def find_effects(client: Client, found: FoundConfig, configs: Collection[ConfigItem]) -> list[Consequence]:
    """Return the consequences at each broker; new_config_plan() removes duplicates."""
    if not configs:
        return []
    widths = (await find_own_topics(client, found)).get(f"{RETRY_PREFIX}{found.group}", {})
    return [
        consequence
        for item in configs
        for consequence in describe_effects(
            found.group, item.before, item.target or {}, message_model=found.message_model,
            retry_queue_count=widths.get(item.broker_name),
        )
    ]  # fmt: skip


def _leftovers(found: FoundConfig, configs: Collection[ConfigItem]) -> Iterator[Consequence]:
    made = {item.broker_name for item in configs}
    queues = found.queue_count(made)
    if queues:
        text = f"Offsets of {queues} are stored under this name: the next member resumes from them."
        yield Consequence("OFFSETS_THERE", text)
    lacking = found.others if made else ()
    if lacking:
        text = (
            f"Not requested at {', '.join(lacking)}: a client that connects there creates the group with the defaults."
        )
        yield Consequence("OTHER_BROKERS", text)


def _forbidden_stay(found: FoundConfig, source: str | None) -> Iterator[Consequence]:
    if source is None:
        return
    tables = [table[source] for table in found.tables.values() if source in table]
    topics = sorted({topic for config in tables for topic in config.forbidden_topics})
    if topics:
        text = f"{source} may not read {', '.join(topics)}; this ban is not copied."
        yield Consequence("FORBIDDEN_NOT_COPIED", text)


def _not_configured(found: FoundConfig, there: Configs) -> Iterator[Consequence]:
    lacking = sorted(found.brokers.keys() - there.keys())
    if lacking:
        text = f"The group is not configured at {', '.join(lacking)}, and is not created there; use group create."
        yield Consequence("NOT_CONFIGURED", text)
