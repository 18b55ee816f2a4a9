"""A broker's write permission: its own setting, and what each name server routes to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from rmqctl.model.route import QueueData
from rmqctl.model.topic import READ, WRITE, TopicConfig, TopicKind
from rmqctl.rules.broker_config import PERMISSION
from rmqctl.rules.topics import kind_of

SETTING = PERMISSION
"""The setting of a broker, PermName bits; the other fields of a broker's permission are addresses of name servers."""


class RoutePermission(StrEnum):
    """What a name server's routes permit for a broker, over all topics that the broker itself opens for writing."""

    READ_WRITE = "read-write"
    READ_ONLY = "read-only"
    MIXED = "mixed"  # some topics can be written, or one that the broker itself closes
    NOT_LISTED = "not-listed"  # the name server has no topic of the broker


def route_permission(listed: Iterable[tuple[bool, QueueData]]) -> RoutePermission:
    """Return what a name server permits, from a broker's entries in its routes, and whether each should be writable."""
    found = {(should, data.is_writable) for should, data in listed}
    if not found:
        return RoutePermission.NOT_LISTED
    if not any(is_writable for _, is_writable in found):
        return RoutePermission.READ_ONLY
    is_as_expected = all(should == is_writable for should, is_writable in found)
    return RoutePermission.READ_WRITE if is_as_expected else RoutePermission.MIXED


def _of(*, is_writable: bool) -> RoutePermission:
    return RoutePermission.READ_WRITE if is_writable else RoutePermission.READ_ONLY


def expected_writes(configs: Mapping[str, TopicConfig]) -> dict[str, bool]:
    """Return whether each topic itself permits writing; RocketMQ's own topics that do not are left out."""
    closed = set(closed_names(configs))
    return {name: bool(each.perm & WRITE) for name, each in configs.items() if each.perm & WRITE or name in closed}


def closed_names(configs: Mapping[str, TopicConfig]) -> list[str]:
    """Return the applications' topics that a broker itself does not open for both reading and writing, sorted."""
    both, kinds = READ | WRITE, (TopicKind.NORMAL, TopicKind.LIGHT)
    return sorted(name for name, config in configs.items() if config.perm & both != both and kind_of(name) in kinds)


def setting_of(fields: Mapping[str, Any]) -> int | None:
    """Return a broker's own permission out of its fields, None if it is not among them."""
    value = fields.get(SETTING)
    return value if isinstance(value, int) else None


def name_servers_of(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the name servers whose routes are among a broker's fields, sorted."""
    return tuple(sorted(name for name in fields if name != SETTING))


def with_write(fields: Mapping[str, Any], *, is_open: bool) -> dict[str, Any]:
    """Return a broker's fields with or without write permission at all name servers; its own setting stays."""
    target = {address: str(_of(is_writable=is_open)) for address in name_servers_of(fields)}
    return {**fields, **target}


def with_setting(fields: Mapping[str, Any], *, is_open: bool) -> dict[str, Any]:
    """Return a broker's fields after its own setting was written, which name servers follow."""
    setting = setting_of(fields) or 0
    return {**with_write(fields, is_open=is_open), SETTING: setting | WRITE if is_open else setting & ~WRITE}


def are_permissions(fields: Mapping[str, Any]) -> bool:
    """Return whether these are a broker's fields, as plans have them."""
    states = {str(each) for each in RoutePermission}
    setting = fields.get(SETTING, 0)
    is_number = type(setting) is int and 0 <= setting <= READ | WRITE | 1
    return is_number and all(fields[address] in states for address in name_servers_of(fields))
