"""The configurations that a plan can change, a group's and its dead-letter topic's, read and written alike."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from msgspec import Struct

from rmqctl.admin.groups.config import read_configs, write_config
from rmqctl.admin.groups.members import fetch_connections
from rmqctl.admin.topics.config import read_topic, write_topic
from rmqctl.changes.groups.rules.fields import request_body
from rmqctl.client.core import Client
from rmqctl.client.stored_offsets import fetch_group_table
from rmqctl.model.names import dead_letter_topic
from rmqctl.model.plan import Operation, Plan
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ConfigReceiptItem
from rmqctl.model.route import BrokerData

from .config_lookup import FoundConfig, find_config
from .dead_letter_permission import find_dead_letter_topic


class BrokerConfig(Struct, frozen=True):
    """What one broker has. `fields`: None without a configuration. The rest is for groups only.

    `keeps_entries`: it has entries for the group's offsets, even if only entries without an offset.
    """

    fields: Mapping[str, Any] | None
    offsets: Mapping[MessageQueue, int] = {}
    keeps_entries: bool = False
    has_members: bool = False


class ConfigAccess(Protocol):
    """One configuration of a group; each broker has its own copy."""

    @property
    def what(self) -> str:
        """The words for it, as in "broker-a had ..."."""

    async def find(self, client: Client, broker_names: Collection[str], seen_ms: int) -> FoundConfig:
        """Read it from these brokers, which existed at `seen_ms`. Raises their error when none of them answers."""

    async def read(self, client: Client, broker: BrokerData) -> BrokerConfig:
        """Read it from one broker's master."""

    async def write(self, client: Client, broker: BrokerData, item: ConfigReceiptItem) -> None:
        """Replace `before` by `target` at a master. May reach the broker twice, which does no harm."""


class _GroupAccess(Struct, frozen=True):
    group: str

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
        return BrokerConfig(fields, stored.offsets, stored.is_kept, has_members=connected is not None)

    async def write(self, client: Client, broker: BrokerData, item: ConfigReceiptItem) -> None:
        await write_config(client, broker, request_body(self.group, item.before, item.target or {}))


class _DeadLetterAccess(Struct, frozen=True):
    group: str

    @property
    def what(self) -> str:
        return f"topic {dead_letter_topic(self.group)}"

    async def find(self, client: Client, broker_names: Collection[str], seen_ms: int) -> FoundConfig:
        return await find_dead_letter_topic(client, self.group, broker_names, seen_ms=seen_ms)

    async def read(self, client: Client, broker: BrokerData) -> BrokerConfig:
        return BrokerConfig(await read_topic(client, broker, dead_letter_topic(self.group)))

    async def write(self, client: Client, broker: BrokerData, item: ConfigReceiptItem) -> None:
        await write_topic(client, broker, item.target or {})


def access_of(plan: Plan) -> ConfigAccess:
    """Return the access to the configuration that a plan changes."""
    if plan.operation is Operation.DLQ_FIX_PERMISSION:
        return _DeadLetterAccess(plan.group)
    return _GroupAccess(plan.group)
