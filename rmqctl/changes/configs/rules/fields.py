"""Configurations, field by field: the allowed values, the result of a change, and the request for it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from rmqctl.errors import UsageError
from rmqctl.model.plan import AwaitedWrite
from rmqctl.text.names import hint_for
from rmqctl.text.numbers import whole_number

ATTRIBUTES = "attributes"
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_POLICIES = ("CUSTOMIZED", "EXPONENTIAL")
_POLICY_PARTS = {"exponentialRetryPolicy": ("initial", "max", "multiplier"), "customizedRetryPolicy": ("next",)}
_ATTRIBUTE_HINT = "Use +NAME=VALUE to set one, -NAME to remove it."
_POLICY_HINT = (
    'Use for example {"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2}} or '
    '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}.'
)


class ConfigField(Struct, frozen=True):
    """One field of a configuration: its default, the range of a number, and the possible texts."""

    default: Any
    lowest: int = 0
    highest: int = _INT_MAX
    texts: tuple[str, ...] = ()


class FieldTable(Struct, frozen=True):
    """The fields that can be set: what they are of, in words, and an `example` of an option that sets one."""

    of: str
    fields: Mapping[str, ConfigField]
    example: str


_GROUP_FIELDS: Mapping[str, ConfigField] = {
    "consumeEnable": ConfigField(True),
    "consumeFromMinEnable": ConfigField(True),
    "consumeBroadcastEnable": ConfigField(True),
    "consumeMessageOrderly": ConfigField(False),
    "retryQueueNums": ConfigField(1),
    "retryMaxTimes": ConfigField(16),
    "groupRetryPolicy": ConfigField({"type": "CUSTOMIZED"}),
    "brokerId": ConfigField(0, highest=_LONG_MAX),
    "whichBrokerWhenConsumeSlowly": ConfigField(1, highest=_LONG_MAX),
    "notifyConsumerIdsChangedEnable": ConfigField(True),
    "groupSysFlag": ConfigField(0),
    "consumeTimeoutMinute": ConfigField(15, lowest=1),
    ATTRIBUTES: ConfigField({}),
}
# SubscriptionGroupConfig, with a broker's defaults.
GROUP = FieldTable("a group's configuration", _GROUP_FIELDS, "--set retryMaxTimes=3")

# TopicConfig, with the defaults of mqadmin updateTopic. `topicName` cannot be changed.
TOPIC_NAME, PERM = "topicName", "perm"
_TOPIC_FIELDS: Mapping[str, ConfigField] = {
    "readQueueNums": ConfigField(8),
    "writeQueueNums": ConfigField(8),
    PERM: ConfigField(6, highest=7),
    "topicFilterType": ConfigField("SINGLE_TAG", texts=("SINGLE_TAG", "MULTI_TAG")),
    "topicSysFlag": ConfigField(0),
    "order": ConfigField(False),
    ATTRIBUTES: ConfigField({}),
}
TOPIC = FieldTable("a topic's configuration", _TOPIC_FIELDS, "--set readQueueNums=16")
_ALL_FIELDS: Mapping[str, ConfigField] = {**_GROUP_FIELDS, **_TOPIC_FIELDS}


class ConfigChanges(Struct, frozen=True):
    """What is to be set: `values` by field, `attributes` (5.x) by name, None for one that is removed."""

    values: Mapping[str, Any] = {}
    attributes: Mapping[str, str | None] = {}

    @property
    def names(self) -> set[str]:
        """The fields that are changed."""
        return {*self.values, *([ATTRIBUTES] if self.attributes else [])}

    @property
    def words(self) -> tuple[str, ...]:
        """The same changes as command-line options."""
        changed = [f"{name}={shown(value)}" for name, value in self.values.items()]
        changed += [f"-{name}" if value is None else f"+{name}={value}" for name, value in self.attributes.items()]
        return tuple(f"--set {each}" for each in changed)


def parse_changes(pairs: Iterable[str], given: Mapping[str, Any], table: FieldTable = GROUP) -> ConfigChanges:
    """Parse FIELD=VALUE, +ATTRIBUTE=VALUE and -ATTRIBUTE; `given` has fields with their own option, None if unset.

    An attribute in `given` starts with +.

    Raises UsageError for an unknown field, an invalid value, and a field that is set twice.
    """
    set_ = {name: value for name, value in given.items() if value is not None}
    attributes: dict[str, str | None] = {name[1:]: value for name, value in set_.items() if name.startswith("+")}
    values = {
        name: _checked(table.fields[name], value, f"{name} {value}")
        for name, value in set_.items()
        if not name.startswith("+")
    }
    for pair in pairs:
        name, separator, text = pair.partition("=")
        said = f"--set {pair}"
        if name[:1] in ("+", "-"):
            is_removed = name[0] == "-"
            if not name[1:] or bool(separator) is is_removed:
                raise UsageError(f"Invalid attribute in {said}.", hint=_ATTRIBUTE_HINT)
            if name[1:] in attributes:
                raise UsageError(f"Attribute {name[1:]} is set twice.")
            attributes[name[1:]] = None if is_removed else text
            continue
        if not separator:
            raise UsageError(f"{said} is not FIELD=VALUE.", hint=f"Use for example {table.example}.")
        _require_field(name, table)
        if name in values:
            raise UsageError(f"{name} is set twice.")
        field = table.fields[name]
        values[name] = _checked(field, _parse(field, text, said), said)
    return ConfigChanges(values, attributes)


def _require_field(name: str, table: FieldTable) -> None:
    if name == ATTRIBUTES:
        raise UsageError("Attributes can only be set one by one.", hint=_ATTRIBUTE_HINT)
    if name not in table.fields:
        raise UsageError(f"Unknown field {name!r} of {table.of}.", hint=hint_for(name, table.fields))


def _parse(field: ConfigField, text: str, said: str) -> Any:
    default = field.default
    if isinstance(default, bool):
        if text.lower() not in _BOOLEANS:
            raise UsageError(f"{said}: the value must be true or false.")
        return _BOOLEANS[text.lower()]
    if isinstance(default, str):
        if text not in field.texts:
            raise UsageError(f"{said}: the value must be {' or '.join(field.texts)}.")
        return text
    try:
        return whole_number(text) if isinstance(default, int) else json.loads(text)
    except (ValueError, RecursionError):
        kind = "a number" if isinstance(default, int) else 'JSON, for example {"type":"EXPONENTIAL"}'
        raise UsageError(f"{said}: the value must be {kind}.") from None


def _checked(field: ConfigField, value: Any, said: str) -> Any:
    if isinstance(field.default, dict):
        _check_policy(value, said)
    elif type(field.default) is int and not field.lowest <= value <= field.highest:
        raise UsageError(f"{said}: the value must be {field.lowest} to {field.highest}.")
    return value


def _check_policy(value: Any, said: str) -> None:
    """Check a GroupRetryPolicy: brokers drop unknown parts, and truncate numbers to whole ones."""
    if not isinstance(value, dict) or value.get("type") not in _POLICIES:
        raise UsageError(f"{said}: the type must be {' or '.join(_POLICIES)}.")
    numbers: list[Any] = []
    for name, part in value.items():
        if name == "type":
            continue
        if name not in _POLICY_PARTS or not isinstance(part, dict) or not part.keys() <= set(_POLICY_PARTS[name]):
            raise UsageError(f"{said}: invalid {name}.", hint=_POLICY_HINT)
        for each in part.values():
            numbers += each if isinstance(each, list) else [each]
    if not all(type(number) is int and 0 < number <= _LONG_MAX for number in numbers):
        raise UsageError(f"{said}: times (in ms) and the multiplier must be whole numbers above 0.")


def default_config(known: Collection[str], table: FieldTable = GROUP) -> dict[str, Any]:
    """Return the default configuration, for a broker that knows these fields."""
    return {name: field.default for name, field in table.fields.items() if name in known}


def changed(before: Mapping[str, Any], changes: ConfigChanges) -> dict[str, Any]:
    """Return a configuration with just these changes; fields unknown to this version of rmqctl are kept."""
    target = {**before, **changes.values}
    if changes.attributes:
        attributes = {**(before.get(ATTRIBUTES) or {}), **changes.attributes}
        target[ATTRIBUTES] = {name: value for name, value in attributes.items() if value is not None}
    return target


def taken_back(before: Mapping[str, Any], target: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return a broker's configuration `now`, reset to `before` wherever the change to `target` had changed it."""
    values = {name: _value(before, name) for name in differing_names(before, target) if name != ATTRIBUTES}
    had, got = before.get(ATTRIBUTES) or {}, target.get(ATTRIBUTES) or {}
    attributes = {name: had.get(name) for name in {**had, **got} if had.get(name) != got.get(name)}
    return changed(now, ConfigChanges(values, attributes))


def request_body(group: str, before: Mapping[str, Any] | None, target: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request body that turns `before` into `target` at a broker: all fields, and attributes as changes.

    Fields missing in a request fall back to their defaults, but attributes are kept: +name sets one, -name removes it,
    and a name without a sign is refused (AttributeUtil.alterCurrentAttributes).
    """
    body = {"groupName": group, **{name: value for name, value in target.items() if name != ATTRIBUTES}}
    steps = attribute_steps(before, target)
    return {**body, ATTRIBUTES: steps} if steps else body


def attribute_steps(before: Mapping[str, Any] | None, target: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes to change, with the value of each: +name to set it, -name to remove it."""
    had, gets = (before or {}).get(ATTRIBUTES) or {}, target.get(ATTRIBUTES) or {}
    steps = {f"-{name}": "" for name in had if name not in gets}
    return steps | {f"+{name}": value for name, value in gets.items() if had.get(name) != value}


def with_permission(config: Mapping[str, Any], perm: int) -> dict[str, Any]:
    """Return a topic's TopicConfig fields with this permission (PermName bits)."""
    return {**config, PERM: perm}


def differing_names(*configs: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the fields whose values differ between configurations, sorted; None is a missing configuration.

    A field that a configuration lacks has its default there.
    """
    there = [config for config in configs if config is not None]
    if len(there) < len(configs):
        there.append({})
    names = {name for config in there for name in config} - {TOPIC_NAME}
    return tuple(sorted(name for name in names if any(_value(each, name) != _value(there[0], name) for each in there)))


def is_taken_over(target: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a broker has stored what it was sent; it may have more fields of a newer release."""
    return all(_value(target, name) == _value(after, name) for name in target)


def holds(target: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> bool:
    """Tell whether a broker has stored what it was sent, or has nothing where that was requested."""
    return target is after if target is None or after is None else is_taken_over(target, after)


def _value(config: Mapping[str, Any], name: str) -> Any:
    value = config.get(name)
    return _ALL_FIELDS[name].default if value is None and name in _ALL_FIELDS else value


def setting_words(config: Mapping[str, Any], names: Collection[str]) -> list[str]:
    """Return some of a configuration's fields in the form of --set."""
    words = [f"{name}={shown(_value(config, name))}" for name in names if name != ATTRIBUTES]
    if ATTRIBUTES in names:
        attributes = _value(config, ATTRIBUTES)
        words += [f"+{name}={value}" for name, value in attributes.items()] or [f"{ATTRIBUTES}={{}}"]
    return words


def shown(value: Any) -> str:
    """Return a field's value in the form of --set."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def is_config_seen(awaits: AwaitedWrite, now: Mapping[str, Any] | None) -> bool:
    """Tell whether a broker has the configuration that an earlier write leaves."""
    return not isinstance(awaits.target, int) and holds(awaits.target, now)
