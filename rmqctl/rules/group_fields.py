"""A group's configuration, field by field: what may be set, what a change makes of it, what is sent for it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from rmqctl.errors import UsageError

from .names import closest

ATTRIBUTES = "attributes"
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_POLICIES = ("CUSTOMIZED", "EXPONENTIAL")
_POLICY_PARTS = {"exponentialRetryPolicy": ("initial", "max", "multiplier"), "customizedRetryPolicy": ("next",)}
_POLICY_HINT = (
    'Such as {"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2}} or '
    '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}.'
)


class Field(Struct, frozen=True):
    """One field of SubscriptionGroupConfig: what a broker fills in, and from where to where a number may be."""

    default: Any
    lowest: int = 0
    highest: int = _INT_MAX


FIELDS: Mapping[str, Field] = {
    "consumeEnable": Field(True),
    "consumeFromMinEnable": Field(True),
    "consumeBroadcastEnable": Field(True),
    "consumeMessageOrderly": Field(False),
    "retryQueueNums": Field(1),
    "retryMaxTimes": Field(16),
    "groupRetryPolicy": Field({"type": "CUSTOMIZED"}),
    "brokerId": Field(0, highest=_LONG_MAX),
    "whichBrokerWhenConsumeSlowly": Field(1, highest=_LONG_MAX),
    "notifyConsumerIdsChangedEnable": Field(True),
    "groupSysFlag": Field(0),
    "consumeTimeoutMinute": Field(15, lowest=1),
    ATTRIBUTES: Field({}),
}


class Changes(Struct, frozen=True):
    """What is to be set: `values` by field, `attributes` by name, None for one that is taken away (5.x)."""

    values: Mapping[str, Any] = {}
    attributes: Mapping[str, str | None] = {}

    @property
    def names(self) -> set[str]:
        """The fields that it names."""
        return {*self.values, *([ATTRIBUTES] if self.attributes else [])}

    @property
    def words(self) -> tuple[str, ...]:
        """How it is said on a command line."""
        changed = [f"{name}={shown(value)}" for name, value in self.values.items()]
        changed += [f"-{name}" if value is None else f"+{name}={value}" for name, value in self.attributes.items()]
        return tuple(f"--set {each}" for each in changed)


def parse_changes(pairs: Iterable[str], given: Mapping[str, Any]) -> Changes:
    """Read FIELD=VALUE, +ATTRIBUTE=VALUE and -ATTRIBUTE; `given` are fields of options of their own, None for none.

    Raises UsageError for an unknown field, a value that it can't have, and for one that is set twice.
    """
    values = {name: _checked(name, value, f"{name} {value}") for name, value in given.items() if value is not None}
    attributes: dict[str, str | None] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        said = f"--set {pair}"
        if name[:1] in ("+", "-"):
            is_removed = name[0] == "-"
            if not name[1:] or bool(separator) is is_removed:
                raise UsageError(f"{said} is no attribute.", hint="+NAME=VALUE sets one, -NAME takes it away.")
            if name[1:] in attributes:
                raise UsageError(f"Attribute {name[1:]} is set twice.")
            attributes[name[1:]] = None if is_removed else text
            continue
        if not separator:
            raise UsageError(f"{said} is no FIELD=VALUE.", hint="Such as --set retryMaxTimes=3.")
        _require_field(name)
        if name in values:
            raise UsageError(f"{name} is set twice.")
        values[name] = _checked(name, _parse(name, text, said), said)
    return Changes(values, attributes)


def _require_field(name: str) -> None:
    if name == ATTRIBUTES:
        raise UsageError("Attributes are set one by one.", hint="+NAME=VALUE sets one, -NAME takes it away.")
    if name not in FIELDS:
        like = closest(name, FIELDS)
        hint = f"Did you mean {like[0]}?" if like else f"Known are {', '.join(FIELDS)}."
        raise UsageError(f"A group's configuration has no {name!r}.", hint=hint)


def _parse(name: str, text: str, said: str) -> Any:
    default = FIELDS[name].default
    if isinstance(default, bool):
        if text.lower() not in _BOOLEANS:
            raise UsageError(f"{said}: it is true or false.")
        return _BOOLEANS[text.lower()]
    try:
        return int(text) if isinstance(default, int) else json.loads(text)
    except (ValueError, RecursionError):
        kind = "a number" if isinstance(default, int) else 'JSON such as {"type":"EXPONENTIAL"}'
        raise UsageError(f"{said}: it is {kind}.") from None


def _checked(name: str, value: Any, said: str) -> Any:
    field = FIELDS[name]
    if isinstance(field.default, dict):
        _check_policy(value, said)
    elif not isinstance(field.default, bool) and not field.lowest <= value <= field.highest:
        raise UsageError(f"{said}: it is {field.lowest} to {field.highest}.")
    return value


def _check_policy(value: Any, said: str) -> None:
    """Check a GroupRetryPolicy: brokers drop what they do not know, and cut numbers to whole ones."""
    if not isinstance(value, dict) or value.get("type") not in _POLICIES:
        raise UsageError(f"{said}: its type is {' or '.join(_POLICIES)}.")
    numbers: list[Any] = []
    for name, part in value.items():
        if name == "type":
            continue
        if name not in _POLICY_PARTS or not isinstance(part, dict) or not part.keys() <= set(_POLICY_PARTS[name]):
            raise UsageError(f"{said}: {name} can't be so.", hint=_POLICY_HINT)
        for each in part.values():
            numbers += each if isinstance(each, list) else [each]
    if not all(type(number) is int and 0 < number <= _LONG_MAX for number in numbers):
        raise UsageError(f"{said}: times are whole numbers of ms above 0, and so is the multiplier.")


def default_config(known: Collection[str]) -> dict[str, Any]:
    """Return what a broker that knows these fields makes of a group of which nothing is said."""
    return {name: field.default for name, field in FIELDS.items() if name in known}


def changed(before: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """Return a configuration with just these changes; fields that this version knows nothing of are kept."""
    target = {**before, **changes.values}
    if changes.attributes:
        attributes = {**(before.get(ATTRIBUTES) or {}), **changes.attributes}
        target[ATTRIBUTES] = {name: value for name, value in attributes.items() if value is not None}
    return target


def taken_back(before: Mapping[str, Any], target: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a broker holds `now`, but as `before` wherever a change from that to `target` had changed it."""
    values = {name: _value(before, name) for name in differing_names(before, target) if name != ATTRIBUTES}
    had, got = before.get(ATTRIBUTES) or {}, target.get(ATTRIBUTES) or {}
    attributes = {name: had.get(name) for name in {**had, **got} if had.get(name) != got.get(name)}
    return changed(now, Changes(values, attributes))


def request_body(group: str, before: Mapping[str, Any] | None, target: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to send so that a broker that holds `before` holds `target`: all fields, and attributes as changes.

    What is left out of a request falls back to its default, but attributes are kept: +name sets one, -name takes it
    away, and one that is named as brokers show it is refused (AttributeUtil.alterCurrentAttributes).
    """
    body = {"groupName": group, **{name: value for name, value in target.items() if name != ATTRIBUTES}}
    had, gets = (before or {}).get(ATTRIBUTES) or {}, target.get(ATTRIBUTES) or {}
    steps = {f"-{name}": "" for name in had if name not in gets}
    steps |= {f"+{name}": value for name, value in gets.items() if had.get(name) != value}
    return {**body, ATTRIBUTES: steps} if steps else body


def differing_names(*configs: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the fields whose values are not the same in all configurations, sorted; None is one that is not there.

    A field that one has and another has not is at its default there.
    """
    there = [config for config in configs if config is not None]
    if len(there) < len(configs):
        there.append({})
    names = {name for config in there for name in config}
    return tuple(sorted(name for name in names if any(_value(each, name) != _value(there[0], name) for each in there)))


def is_taken_over(target: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a broker holds what it was sent, whatever else it has of a newer release."""
    return all(_value(target, name) == _value(after, name) for name in target)


def holds(target: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> bool:
    """Tell whether a broker holds what it was sent, or nothing where that was asked for."""
    return target is after if target is None or after is None else is_taken_over(target, after)


def _value(config: Mapping[str, Any], name: str) -> Any:
    value = config.get(name)
    return FIELDS[name].default if value is None and name in FIELDS else value


def setting_words(config: Mapping[str, Any], names: Collection[str]) -> list[str]:
    """Say some of a configuration's fields, as --set takes them."""
    words = [f"{name}={shown(_value(config, name))}" for name in names if name != ATTRIBUTES]
    if ATTRIBUTES in names:
        attributes = _value(config, ATTRIBUTES)
        words += [f"+{name}={value}" for name, value in attributes.items()] or [f"{ATTRIBUTES}={{}}"]
    return words


def shown(value: Any) -> str:
    """Return a field's value as --set takes it."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
