"""A group at the broker of a message, as far as it decides whether the group can get the message again."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from rmqctl.admin.brokers.permission import read_setting
from rmqctl.admin.groups.config import read_configs
from rmqctl.admin.groups.members import fetch_connections, find_proxies
from rmqctl.admin.topics.config import read_topic
from rmqctl.changes.configs.rules.fields import GROUP
from rmqctl.client.core import Client
from rmqctl.errors import NotFoundError, RefusedError
from rmqctl.model.group import BROADCASTING, CONSUME_ACTIVELY, CONSUME_POP, GroupConfig, GroupConnections, GroupState
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import Unknown
from rmqctl.model.route import BrokerData
from rmqctl.model.topic import READ, WRITE
from rmqctl.rules.group_state import group_state, unseen_reason
from rmqctl.rules.retry_places import HINDRANCES, RetryHindrance, RetryPlace

_DIRECT = "To have one member consume the message: --direct"


class GroupAtBroker(Struct, frozen=True):
    """A group at one broker. `connections`: None without members there. `config`: None if it is not configured.

    `unseen` is why the group may have members although none is visible, None when it cannot. `broker_permission` is the
    broker's own (brokerPermission), `retry_permission` that of its copy of the retry topic, None if it has none yet.
    """

    group: str
    broker: BrokerData
    config: GroupConfig | None
    connections: GroupConnections | None
    unseen: Unknown | None
    broker_permission: int
    retry_permission: int | None

    @property
    def state(self) -> GroupState:
        """Whether the group has members at the broker."""
        return group_state(self.unseen, has_members=self.connections is not None)

    @property
    def client_ids(self) -> tuple[str, ...]:
        """The members that are connected to the broker, sorted."""
        members = () if self.connections is None else self.connections.members
        return tuple(sorted({member.client_id for member in members}))

    @property
    def consume_type(self) -> str | None:
        """How its members consume, None without members."""
        return None if self.connections is None else self.connections.consume_type

    @property
    def message_model(self) -> str | None:
        """BROADCASTING or CLUSTERING, None without members."""
        return None if self.connections is None else self.connections.message_model

    @property
    def most_retries(self) -> int:
        """The number of retries before a message becomes a dead letter (retryMaxTimes)."""
        return GROUP.fields["retryMaxTimes"].default if self.config is None else self.config.retry_max_times

    @property
    def place(self) -> RetryPlace:
        """The broker as a place for the group's retries; by its own tables, which count with wiped routes too."""
        retry = self.retry_permission
        return RetryPlace(
            is_writable=bool(self.broker_permission & WRITE),
            retry_queue_count=None if self.config is None else self.config.retry_queue_count,
            is_topic_writable=None if retry is None else bool(retry & WRITE),
        )


async def find_group(client: Client, broker: BrokerData, group: str) -> GroupAtBroker:
    """Read a group at the master of a broker. Raises the errors of Client.ask()."""
    configs, connections, setting, retry = await asyncio.gather(
        read_configs(client, broker),
        fetch_connections(client, broker, group),
        read_setting(client, broker),
        read_topic(client, broker, f"{RETRY_PREFIX}{group}"),
    )
    if connections is not None and not connections.members:
        connections = None
    unseen = None
    if connections is None:
        proxies, _ = await find_proxies(client, [broker])
        unseen = unseen_reason([], proxies)
    return GroupAtBroker(
        group, broker, configs.get(group), connections, unseen, setting, None if retry is None else retry["perm"]
    )


def require_retries(found: GroupAtBroker, reconsume_times: int) -> None:
    """Raise RefusedError if the group would not get a copy of a message in its retry topic at the broker.

    Raises NotFoundError if the group is not configured there.
    """
    group, name, config = found.group, found.broker.broker_name, found.config
    if config is None:
        raise NotFoundError("Group", group).reworded(f"Group {group} is not configured at {name}.")
    if (hindrance := found.place.hindrance) is not None:
        hint = _DIRECT
        if hindrance is RetryHindrance.BROKER_NOT_WRITABLE:
            hint = f"It has brokerPermission={found.broker_permission}. {_DIRECT}, or: rmqctl broker restore {name}"
        raise RefusedError(f"{name} {HINDRANCES[hindrance]}.", hint=hint)
    if found.most_retries <= reconsume_times:
        sentence = f"Group {group} has retryMaxTimes={found.most_retries} at {name}: the copy would be a dead letter."
        raise RefusedError(sentence)
    if not config.consume_enable:
        raise RefusedError(f"Group {group} has consumeEnable=false at {name}: its members get nothing.")
    if found.retry_permission is not None and not found.retry_permission & READ:
        raise RefusedError(f"{RETRY_PREFIX}{group} has perm={found.retry_permission} at {name}: members get no copy.")
    if found.message_model == BROADCASTING:
        raise RefusedError(f"Group {group} consumes in broadcasting mode: it has no retries.", hint=_DIRECT)
    if found.consume_type in (CONSUME_POP, CONSUME_ACTIVELY):
        how = "pops" if found.consume_type == CONSUME_POP else "pulls"
        raise RefusedError(f"Group {group} {how}: its members do not read {RETRY_PREFIX}{group}.", hint=_DIRECT)
