"""Plans to make a group's dead-letter topic readable at each broker where it is write-only, and the undo of this."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from rmqctl.admin.brokers.cluster import fetch_cluster
from rmqctl.admin.results import ask_any, failed_by_name, not_found
from rmqctl.admin.topics.config import read_topic
from rmqctl.changes.groups.rules.dead_letter_permission import PERM, is_readable, opened, with_permission
from rmqctl.changes.late_writes import awaited_writes, describe_awaited, describe_never_seen
from rmqctl.changes.plan_parts import PlanReport, awaiting_config, cluster_label
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError, RmqctlError
from rmqctl.model.failure import Failure
from rmqctl.model.names import DLQ_PREFIX, dead_letter_topic
from rmqctl.model.plan import ConfigItem, Consequence, Operation, Route
from rmqctl.model.progress import Unknown
from rmqctl.model.receipt import Receipt, Result
from rmqctl.text.names import closest
from rmqctl.text.words import listed

from .config_lookup import FoundConfig, changed_configs, choose_brokers, new_config_plan


async def find_dead_letter_topic(
    client: Client, group: str, broker_names: Collection[str] = (), *, seen_ms: int | None = None
) -> FoundConfig:
    """Read the configuration of a group's dead-letter topic from the masters of these brokers; of all if none is named.

    `configs` has TopicConfig's fields. The group's members and offsets do not matter, and are not read. `seen_ms` is
    when these brokers existed, as for find_config.

    Raises NotFoundError for a broker that does not exist, and the brokers' error when none of them answers.
    """
    cluster = await fetch_cluster(client)
    every = {broker.broker_name: broker for broker in cluster.brokers}
    chosen = choose_brokers(every, broker_names, client.name_server_views.silent, seen_ms=seen_ms)
    answers = await ask_any(chosen, lambda name: read_topic(client, chosen[name], dead_letter_topic(group)))
    return FoundConfig(
        group=group,
        cluster=cluster_label(cluster.brokers, client.name_servers),
        brokers={name: chosen[name] for name in answers.ok},
        others=tuple(sorted(set(every) - set(chosen))),
        configs={name: fields for name, fields in answers.ok.items() if fields is not None},
        tables={},
        offsets={},
        keeping=frozenset(),
        members={},
        unseen=Unknown.NOT_REPORTED,
        consume_type=None,
        message_model=None,
        failures=tuple(Failure(name, "dead-letter topic", error) for name, error in sorted(answers.failed.items())),
    )


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
    changed = changed_configs(receipt)
    former = {name: item.before[PERM] for name, item in changed.items() if item.before is not None}
    if not former:
        raise RefusedError(f"There is nothing to undo in {receipt.id}: no broker was changed.")
    found = await find_dead_letter_topic(client, receipt.group, former, seen_ms=receipt.started_at_ms)
    configs = [
        ConfigItem(name, fields, with_permission(fields, former[name]), route=Route.TOPIC_CONFIG)
        for name, fields in found.configs.items()
        if fields[PERM] != former[name]
    ]
    awaited = awaited_writes(receipt, client.clock.now_ms())
    as_before = [name for name, fields in found.configs.items() if fields[PERM] == former[name]]
    late = [
        awaiting_config(name, found.configs[name], awaited[name], Route.TOPIC_CONFIG)
        for name in as_before
        if name in awaited
    ]
    never_seen = [name for name in as_before if changed[name].result is Result.UNKNOWN and name not in awaited]
    consequences = (
        *(_consequences(found, configs, "has its former permission") if configs or not late else ()),
        *describe_awaited(late),
        *describe_never_seen(never_seen, receipt.id),
    )
    return _planned(client, found, [*configs, *late], consequences, asked=f"undo {receipt.id}", reason=reason)


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
