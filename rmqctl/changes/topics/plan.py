"""Plans changes of a topic: each broker's copy is read, and written whole with the changed fields, or deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from rmqctl.admin.results import all_or_failed, ask_all, failed_by_name, not_found
from rmqctl.admin.topics.config import read_topic
from rmqctl.changes.configs.lookup import FoundConfig, find_topic, new_config_plan
from rmqctl.changes.configs.rules.fields import (
    ATTRIBUTES,
    TOPIC,
    TOPIC_NAME,
    ConfigChanges,
    changed,
    default_config,
)
from rmqctl.changes.configs.settings import (
    changed_items,
    describe_differing,
    describe_left_alone,
    require_equal,
    require_known,
)
from rmqctl.changes.plan_parts import PlanReport
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RmqctlError, UsageError
from rmqctl.model.names import require_topic_name
from rmqctl.model.plan import ConfigItem, Consequence, Operation, Route, Subject
from rmqctl.text.names import closest
from rmqctl.text.words import listed

from .effects import find_effects

# Every broker has it, so it shows which fields a broker knows.
_EVERYWHERE = "SELF_TEST_TOPIC"
_SHOWN = 10


class TopicRequest(Struct, frozen=True):
    """What is to be done with a topic, at these brokers; at all if none is named."""

    topic: str
    changes: ConfigChanges = ConfigChanges()
    broker_names: tuple[str, ...] = ()
    asked: str = ""
    reason: str | None = None


async def plan_creation(client: Client, request: TopicRequest) -> PlanReport:
    """Return the plan that creates a topic, with the given fields and the defaults of mqadmin updateTopic.

    Raises UsageError for an invalid name or field, RefusedError if the topic exists with another configuration, and
    what find_topic raises.
    """
    require_topic_name(request.topic)
    found = await _find(client, request)
    known = await _known_fields(client, found)
    _require_fields(known, request.changes)
    targets = {
        name: changed({TOPIC_NAME: request.topic, **default_config(fields, TOPIC)}, request.changes)
        for name, fields in known.items()
    }
    require_equal(found.subject, found.configs, targets)
    items = [
        ConfigItem(name, None, target, route=Route.TOPIC_CONFIG)
        for name, target in targets.items()
        if name not in found.configs
    ]
    left = [Consequence("LEFT_ALONE", f"{name} already has the topic with these settings.") for name in found.configs]
    return await _planned(client, found, Operation.TOPIC_CREATE, items, left, request)


async def plan_update(client: Client, request: TopicRequest) -> PlanReport:
    """Return the plan that sets some fields of a topic, and keeps the others as each broker has them.

    Raises UsageError for a field that a broker does not know, NotFoundError for a topic that does not exist, and what
    find_topic raises.
    """
    found = await _find(client, request)
    if not found.configs:
        raise await _not_found(client, found, request.topic)
    _require_fields({name: set(fields) for name, fields in found.configs.items()}, request.changes)
    targets = {name: changed(fields, request.changes) for name, fields in found.configs.items()}
    items = changed_items(found.configs, targets, Route.TOPIC_CONFIG)
    consequences = [
        *describe_left_alone(found.configs, items),
        *_lacking(found, "it is not created there; use topic create"),
        *describe_differing(targets),
    ]
    return await _planned(client, found, Operation.TOPIC_UPDATE, items, consequences, request)


async def plan_deletion(client: Client, request: TopicRequest) -> PlanReport:
    """Return the plan that deletes a topic with its messages.

    Raises NotFoundError for a topic that does not exist, and what find_topic raises.
    """
    found = await _find(client, request)
    if not found.configs:
        raise await _not_found(client, found, request.topic)
    items = [ConfigItem(name, fields, None, route=Route.TOPIC_CONFIG) for name, fields in found.configs.items()]
    left = [*_lacking(found, "nothing is deleted there")] if request.broker_names else []
    return await _planned(client, found, Operation.TOPIC_DELETE, items, left, request)


async def _find(client: Client, request: TopicRequest) -> FoundConfig:
    return await find_topic(client, Subject("", request.topic), request.topic, request.broker_names)


async def _planned(
    client: Client, found: FoundConfig, operation: Operation, items: list[ConfigItem], left: list[Consequence],
    request: TopicRequest,
) -> PlanReport:  # fmt: skip
    effects, failures = await find_effects(client, request.topic, found, items)
    plan = new_config_plan(
        client, found, operation, items, consequences=[*left, *effects], asked=request.asked, reason=request.reason,
        route=Route.TOPIC_CONFIG,
    )  # fmt: skip
    return PlanReport(plan, (*found.failures, *failures))


async def _known_fields(client: Client, found: FoundConfig) -> dict[str, set[str]]:
    """Return the fields of TopicConfig that each broker knows."""
    answers = await ask_all(found.brokers, lambda name: read_topic(client, found.brokers[name], _EVERYWHERE))
    return {name: set(fields or TOPIC.fields) for name, fields in all_or_failed(answers).items()}


def _require_fields(known: Mapping[str, set[str]], changes: ConfigChanges) -> None:
    """Raise UsageError for a field that a broker would silently drop, and for what its request cannot carry."""
    for name, value in changes.attributes.items():
        if value is not None and ({",", "="} & {*name, *value}):
            raise UsageError(f"Attribute {name}={value}: a topic's attributes cannot contain a comma or =.")
    for broker_name, fields in known.items():
        # 4.9 has no attributes, and stores false for `order` whatever it is sent.
        has_order = ATTRIBUTES in fields or not changes.values.get("order")
        require_known(broker_name, (changes.names - fields) | (set() if has_order else {"order"}))


async def _not_found(client: Client, found: FoundConfig, topic: str) -> RmqctlError:
    names = await client.topic_names()
    if topic in names and not found.failures:
        where = listed(sorted(found.brokers), _SHOWN)
        return NotFoundError("Topic", topic).reworded(f"Topic {topic} does not exist at {where}.")
    error = NotFoundError("Topic", topic, suggestions=closest(topic, [name for name in names if name != topic]))
    return not_found(error, failed_by_name(found.failures))


def _lacking(found: FoundConfig, what: str) -> Iterator[Consequence]:
    lacking = sorted(found.brokers.keys() - found.configs.keys())
    if lacking:
        yield Consequence("NO_TOPIC", f"The topic does not exist at {listed(lacking, _SHOWN)}: {what}.")
