"""The configurations that a plan can change, of groups, topics and brokers, read and written alike."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from rmqctl.admin.brokers.permission import write_routes, write_setting
from rmqctl.admin.brokers.rules.permission import SETTING, name_servers_of
from rmqctl.admin.groups.config import delete_group, read_configs, write_config
from rmqctl.admin.groups.members import fetch_connections
from rmqctl.admin.topics.config import delete_topic, read_topic, write_topic
from rmqctl.admin.topics.queues import find_route
from rmqctl.changes.configs.rules.fields import attribute_steps, request_body, with_permission
from rmqctl.changes.late_writes import is_refusal
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_group_table
from rmqctl.errors import RmqctlError
from rmqctl.model.names import dead_letter_topic
from rmqctl.model.plan import Plan, Route, Subject
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ConfigReceiptItem
from rmqctl.model.route import BrokerData

from .broker_lookup import find_fields, read_fields
from .lookup import FoundConfig, find_config, find_topic
from .topic_routes import offering_brokers


class BrokerConfig(Struct, frozen=True):
    """What one broker has. `fields`: None without a configuration. `offsets` are those of a group.

    `why_back` is why a configuration that was just deleted is not gone for good; empty if it is.
    """

    fields: Mapping[str, Any] | None
    offsets: Mapping[MessageQueue, int] = {}
    why_back: str = ""


class ConfigAccess(Protocol):
    """One configuration; each broker has its own copy."""

    @property
    def what(self) -> str:
        """The words for it, as in "broker-a had ..."."""

    @property
    def topic(self) -> str | None:
        """The topic that it is of; its route follows the change. None for a group or a broker."""

    follows: ClassVar[bool]
    """Whether a part of it may change only some time after the broker's answer."""

    async def find(self, client: Client, broker_names: Collection[str], seen_ms: int) -> FoundConfig:
        """Read it from these brokers, which existed at `seen_ms`. Raises their error when none of them answers."""

    async def read(self, client: Client, broker: BrokerData) -> BrokerConfig:
        """Read it from one broker's master."""

    async def write(self, client: Client, broker: BrokerData, item: ConfigReceiptItem) -> None:
        """Replace `before` by `target` at a master. May reach the broker twice, which does no harm."""

    async def delete(self, client: Client, broker: BrokerData, item: ConfigReceiptItem | None) -> None:
        """Delete it at a master; `item` is its configuration, None if only a group's offsets are left there."""


class _GroupAccess(Struct, frozen=True):
    follows: ClassVar[bool] = False
    group: str
    takes_offsets: bool

    @property
    def topic(self) -> None:
        return None

    @property
    def what(self) -> str:
        return "the group configured"

    async def find(self, client: Client, broker_names: Collection[str], seen_ms: int) -> FoundConfig:
        return await find_config(client, self.group, broker_names, seen_ms=seen_ms)

    async def read(self, client: Client, broker: BrokerData) -> BrokerConfig:
        table, stored, connected = await asyncio.gather(
            read_configs(client, broker),
            fetch_group_table(client, broker, self.group),
            fetch_connections(client, broker, self.group),
        )
        config = table.get(self.group)
        fields = None if config is None else config.fields
        why_back = ""
        if connected is not None:
            why_back = "a member joined meanwhile, and will bring it back"
        elif stored.is_kept and self.takes_offsets:
            why_back = "the broker still has entries of its offsets"
        return BrokerConfig(fields, stored.offsets, why_back)

    async def write(self, client: Client, broker: BrokerData, item: ConfigReceiptItem) -> None:
        await write_config(client, broker, request_body(self.group, item.before, item.target or {}))

    async def delete(self, client: Client, broker: BrokerData, _: ConfigReceiptItem | None) -> None:
        await delete_group(client, broker, self.group, with_offsets=self.takes_offsets)


class _TopicAccess(Struct, frozen=True):
    follows: ClassVar[bool] = False
    subject: Subject
    topic: str
    deleted_at: frozenset[str]

    @property
    def what(self) -> str:
        return f"topic {self.topic}"

    async def find(self, client: Client, broker_names: Collection[str], seen_ms: int) -> FoundConfig:
        return await find_topic(client, self.subject, self.topic, broker_names, seen_ms=seen_ms)

    async def read(self, client: Client, broker: BrokerData) -> BrokerConfig:
        return BrokerConfig(await read_topic(client, broker, self.topic))

    async def write(self, client: Client, broker: BrokerData, item: ConfigReceiptItem) -> None:
        target = item.target or {}
        await write_topic(client, broker, target, attribute_steps(item.before, target))

    async def delete(self, client: Client, broker: BrokerData, item: ConfigReceiptItem | None) -> None:
        before = None if item is None else item.before
        if before is None or not offering_brokers(await find_route(client, self.topic), self.deleted_at):
            await delete_topic(client, broker, self.topic)
            return
        # A broker registers a permission, but not a deletion: while other brokers keep the topic, its route stays, and
        # producers would send to this broker, too, and make it create the topic again.
        await write_topic(client, broker, with_permission(before, 0), {})
        try:
            await delete_topic(client, broker, self.topic)
        except RmqctlError as error:
            if is_refusal(error):
                await write_topic(client, broker, before, {})
            raise


class _BrokerAccess(Struct, frozen=True):
    """A broker's write permission: its own setting, which name servers follow, or their routes only."""

    follows: ClassVar[bool] = True
    subject: Subject
    route: Route
    names: frozenset[str]
    is_undo: bool

    @property
    def topic(self) -> None:
        return None

    @property
    def what(self) -> str:
        return "a permission"

    async def find(self, client: Client, _: Collection[str], seen_ms: int) -> FoundConfig:
        return await find_fields(client, self.subject, self.names, seen_ms=seen_ms, is_undo=self.is_undo)

    async def read(self, client: Client, broker: BrokerData) -> BrokerConfig:
        return BrokerConfig(await read_fields(client, broker, self.names))

    async def write(self, client: Client, broker: BrokerData, item: ConfigReceiptItem) -> None:
        before, target = item.before or {}, item.target or {}
        if self.route is Route.BROKER_CONFIG:
            await write_setting(client, broker, target[SETTING])
        else:
            changed = {name: target[name] for name in name_servers_of(target) if target[name] != before.get(name)}
            await write_routes(client, broker.broker_name, changed)

    async def delete(self, *_: object) -> None:
        raise AssertionError("the permission of a broker is never deleted")


def access_of(plan: Plan) -> ConfigAccess:
    """Return the access to the configuration that a plan changes."""
    if plan.broker is not None:
        names = {name for item in plan.configs for name in item.target or ()}
        return _BrokerAccess(plan.subject, plan.route, frozenset(names), plan.asked.startswith("undo "))
    if plan.route is not Route.TOPIC_CONFIG:
        return _GroupAccess(plan.group, plan.takes_offsets)
    deleted_at = frozenset(item.broker_name for item in plan.configs if item.is_deletion)
    return _TopicAccess(plan.subject, plan.topic or dead_letter_topic(plan.group), deleted_at)
