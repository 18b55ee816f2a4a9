"""The target of draining or restoring a broker, which of the two ways leads there, and the consequences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rmqctl.admin.brokers.rules.permission import (
    SETTING,
    RoutePermission,
    name_servers_of,
    setting_of,
    with_setting,
    with_write,
)
from rmqctl.changes.configs.settings import describe_other_name_servers
from rmqctl.model.plan import ConfigItem, Consequence, Route
from rmqctl.model.route import MASTER_ID, BrokerData
from rmqctl.model.topic import WRITE
from rmqctl.text.words import counted, listed

_SHOWN = 5


def is_drained(fields: Mapping[str, Any]) -> bool:
    """Return whether all name servers already keep producers from a broker."""
    return {fields[address] for address in name_servers_of(fields)} == {RoutePermission.READ_ONLY}


def changed_permission(name: str, fields: Mapping[str, Any], way: Route, *, is_open: bool) -> ConfigItem:
    """Return what gives write permission to a broker, or removes it, in one way."""
    make = with_setting if way is Route.BROKER_CONFIG else with_write
    return ConfigItem(name, fields, make(fields, is_open=is_open), route=way)


def reverted(
    name: str, before: Mapping[str, Any], now: Mapping[str, Any], *, is_open: bool, has_closed: bool
) -> ConfigItem:
    """Return what an undo makes of a broker's fields `now`, whose former values `before` are to be restored.

    `is_open`: it gives write permission back. Name servers cannot restore a part of their routes, but all of a broker.
    """
    changed = [address for address in name_servers_of(now) if now[address] != before.get(address, now[address])]
    own = setting_of(before)
    if own is None:
        own = setting_of(now)
    if own != setting_of(now) or (is_open and has_closed and own is not None and changed):
        target = {**with_setting(now, is_open=is_open), SETTING: own}
        return ConfigItem(name, now, target, route=Route.BROKER_CONFIG)
    opened = with_write({address: now[address] for address in changed}, is_open=is_open)
    return ConfigItem(name, now, {**now, **opened}, route=Route.NAME_SERVER)


def describe_other(item: ConfigItem, before: Mapping[str, Any]) -> Iterator[Consequence]:
    """Yield the name servers that an undo leaves in another state than before the change."""
    for address in name_servers_of(item.target or {}):
        target = (item.target or {})[address]
        if target != (was := before.get(address, target)):
            yield Consequence("NOT_AS_BEFORE", f"{address} was {was} before the change, and becomes {target}.")


def choose_restoring(fields: Mapping[str, Any], closed: Collection[str] | None) -> tuple[Route, str]:
    """Return the way to give write permission back, and why, as the end of a sentence.

    After brokerPermission is written, the broker registers its topics again, with their own permissions. Name servers
    just open all topics (RouteInfoManager.addWritePermOfBroker).
    """
    setting = setting_of(fields)
    unlisted = unlisted_at(fields)
    if setting is None:
        return Route.NAME_SERVER, "the broker does not answer"
    if not setting & WRITE:
        return Route.BROKER_CONFIG, f"brokerPermission is {setting}"
    if closed:
        text = f"{counted(len(closed), 'topic')} that the broker itself closes: {listed(closed, _SHOWN)}"
        return Route.BROKER_CONFIG, f"addWritePerm would also open {text}"
    if unlisted:
        return Route.BROKER_CONFIG, f"{listed(unlisted, _SHOWN)} lists no topic of the broker"
    return Route.NAME_SERVER, "brokerPermission permits writing, and only name servers do not"


def unlisted_at(fields: Mapping[str, Any]) -> list[str]:
    """Return the name servers that list no topic of a broker, sorted."""
    return [address for address in name_servers_of(fields) if fields[address] == RoutePermission.NOT_LISTED]


def describe_way(way: Route, why: str, *, is_open: bool) -> Consequence:
    """Return which of the two ways a plan uses, and why."""
    request = "addWritePerm" if is_open else "wipeWritePerm"
    words = {
        Route.BROKER_CONFIG: "broker's own setting (brokerPermission)",
        Route.NAME_SERVER: f"routes of the name servers ({request})",
    }
    return Consequence("WAY", f"This changes the {words[way]}: {why}.")


def describe_drain(item: ConfigItem, broker: BrokerData) -> Iterator[Consequence]:
    """Yield what follows from removing write permission, apart from what happens to groups."""
    name = item.broker_name
    text = "Producers notice within 30 s, when they next read routes. Until then, the broker stores what they send."
    yield Consequence("PRODUCERS_LATE", text)
    if item.route is Route.NAME_SERVER:
        text = (
            "A name server restores the permission when it restarts, when a topic of the broker changes, and when the "
            f"broker registers again. Check with rmqctl broker drain {name} --by wipeWritePerm --dry-run."
        )
        yield Consequence("NOT_LASTING", text)
        return
    text = f"The broker keeps brokerPermission in its configuration file, until rmqctl broker restore {name}."
    yield Consequence("IN_FILE", text)
    slaves = [address for number, address in broker.addresses.items() if number != MASTER_ID]
    if slaves:
        text = f"Slaves keep their own setting: {listed(sorted(slaves), _SHOWN)}. One that becomes master is writable."
        yield Consequence("SLAVES_KEEP", text)


def describe_restore(item: ConfigItem, closed: Collection[str] | None) -> Iterator[Consequence]:
    """Yield what follows from giving write permission back."""
    yield Consequence("PRODUCERS_LATE", "Producers notice within 30 s, when they next read routes.")
    if item.route is Route.NAME_SERVER and closed is None:
        text = "addWritePerm opens all topics, also those that the broker itself closes: these are not known now."
        yield Consequence("OPENS_CLOSED", text)


def describe_state(fields: Mapping[str, Any], registers: str, asked: Collection[str]) -> Iterator[Consequence]:
    """Yield which name servers do not list the broker, and which are not `asked`; `registers` is its namesrvAddr."""
    yield from describe_other_name_servers([registers], asked, "their routes are not known")
    if unlisted := unlisted_at(fields):
        yield Consequence("NOT_LISTED", f"{listed(unlisted, _SHOWN)} lists no topic of the broker.")
