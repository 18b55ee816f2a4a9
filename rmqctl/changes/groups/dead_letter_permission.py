"""Plans to make a group's dead-letter topic readable at each broker where it is write-only, and the undo of this."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from rmqctl.admin.results import failed_by_name, not_found
from rmqctl.changes.configs.lookup import FoundConfig, find_topic, new_config_plan
from rmqctl.changes.configs.undo import Reverted, require_changed, revert_configs
from rmqctl.changes.groups.rules.dead_letter_permission import is_readable, opened
from rmqctl.changes.late_writes import describe_awaited, describe_never_seen
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError
from rmqctl.model.names import DLQ_PREFIX, dead_letter_topic
from rmqctl.model.plan import ConfigItem, Consequence, Operation, Route, Subject
from rmqctl.model.receipt import Receipt
from rmqctl.text.names import closest
from rmqctl.text.words import listed


async def find_dead_letter_topic(
    client: Client, group: str, broker_names: Collection[str] = (), *, seen_ms: int | None = None
) -> FoundConfig:
    """Read the configuration of a group's dead-letter topic, as find_topic() does."""
    return await find_topic(client, Subject(group), dead_letter_topic(group), broker_names, seen_ms=seen_ms)


async def plan_permission(client: Client, group: str, *, reason: str | None) -> PlanReport:
    """Return the plan that adds the read permission wherever a group's dead-letter topic lacks it.

    It has no items if the topic is readable at every broker. Raises NotFoundError for a group without such a topic,
    and what find_dead_letter_topic raises.
    """
    found = await find_dead_letter_topic(client, group)
    if not found.configs:
        raise await _not_found(client, found)
    configs = [
        ConfigItem(name, fields, opened(fields), route=Route.TOPIC_CONFIG)
        for name, fields in found.configs.items()
        if not is_readable(fields)
    ]
    consequences = _consequences(found, configs, "is readable")
    return _planned(client, found, configs, consequences, asked="", reason=reason)


async def plan_permission_undo(client: Client, receipt: Receipt, *, reason: str | None) -> PlanReport:
    """Return the plan that restores the topic's former permission where a change had set it, and nothing else.

    Members of the group do not matter. Raises RefusedError if nothing was changed, and what find_dead_letter_topic
    raises.
    """
    changed = require_changed(receipt)
    found = await find_dead_letter_topic(client, receipt.group, changed, seen_ms=receipt.started_at_ms)
    reverted = revert_configs(receipt, found, client.clock.now_ms(), route=Route.TOPIC_CONFIG)
    # A topic that was deleted since is not created again for its permission.
    reverted = replace(reverted, items=tuple(item for item in reverted.items if item.before is not None))
    consequences = (
        *(_consequences(found, reverted.certain, "has its former permission") if _says(reverted) else ()),
        *describe_awaited(reverted.items),
        *describe_never_seen(reverted.never_seen, receipt.id),
    )
    return _planned(client, found, reverted.items, consequences, asked=f"undo {receipt.id}", reason=reason)


def _says(reverted: Reverted) -> bool:
    """Return whether something is certain of an undo: it writes, or it has nothing to wait for."""
    return bool(reverted.certain) or not reverted.items


def _planned(
    client: Client, found: FoundConfig, configs: Collection[ConfigItem], consequences: Iterable[Consequence], *,
    asked: str, reason: str | None,
) -> PlanReport:  # fmt: skip
    plan = new_config_plan(
        client, found, Operation.DLQ_FIX_PERMISSION, configs, consequences=consequences, asked=asked, reason=reason,
        route=Route.TOPIC_CONFIG,
    )  # fmt: skip
    return PlanReport(plan, found.failures)


def _consequences(found: FoundConfig, configs: Collection[ConfigItem], wanted: str) -> Iterator[Consequence]:
    """Yield where consumers can read the topic then; `wanted` is its state where nothing changes."""
    topic = dead_letter_topic(found.group)
    targets = {item.broker_name: item.target for item in configs if item.target is not None}
    if not targets and found.configs:
        text = f"Nothing to do: {topic} {wanted} at {listed(sorted(found.configs))}."
        yield Consequence("NOTHING_TO_DO", text)
    opened_at = sorted(name for name, target in targets.items() if is_readable(target))
    if opened_at:
        yield Consequence("OPENED", f"Consumers will be able to read {topic} at {listed(opened_at)}.")
    closed_at = sorted(targets.keys() - set(opened_at))
    if closed_at:
        yield Consequence("CLOSED", f"Consumers will no longer be able to read {topic} at {listed(closed_at)}.")
    left = sorted(found.configs.keys() - targets.keys()) if targets else ()
    if left:
        yield Consequence("LEFT_ALONE", f"{topic} {wanted} at {listed(left)}, and is not changed there.")
    lacking = sorted(found.brokers.keys() - found.configs.keys())
    if lacking:
        yield Consequence("NO_TOPIC", f"{topic} does not exist at {listed(lacking)}.")


async def _not_found(client: Client, found: FoundConfig) -> RmqctlError:
    topic = dead_letter_topic(found.group)
    names = await client.topic_names()
    groups = [name.removeprefix(DLQ_PREFIX) for name in names if name.startswith(DLQ_PREFIX)]
    error = NotFoundError("Dead-letter topic", topic, suggestions=closest(found.group, groups))
    hint = error.hint or "A broker creates it with the group's first dead letter."
    return not_found(error.reworded(error.sentence, hint=hint), failed_by_name(found.failures))
