"""Consumer groups: their configuration on a broker, their members, what a member says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from .queue import MessageQueue


class GroupState(StrEnum):
    """Whether a group has members, as far as its brokers can see.

    EMPTY is not offline: clients behind a proxy, and clients that pull without a heartbeat, are not seen by brokers.
    """

    ONLINE = "ONLINE"
    EMPTY = "EMPTY"
    UNKNOWN = "UNKNOWN"


class GroupConfig(Struct, frozen=True):
    """One broker's configuration of a group (SubscriptionGroupConfig); each broker has its own copy."""

    group: str
    consume_enable: bool
    consume_broadcast_enable: bool
    retry_queue_count: int
    retry_max_times: int


class Subscription(Struct, frozen=True):
    """One topic of a group's subscription (SubscriptionData). `version_ms` is the clock of the client that set it."""

    topic: str
    expression: str
    expression_type: str
    version_ms: int


class Member(Struct, frozen=True):
    """One connection of a group at one broker. The connection is the key: one client id may stand twice."""

    client_id: str
    client_address: str
    language: str
    version: int


class GroupConnections(Struct, frozen=True):
    """Answer of GET_CONSUMER_CONNECTION_LIST: who is connected to one broker, and what the last of them said."""

    members: tuple[Member, ...]
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: Mapping[str, Subscription]


BROADCASTING = "BROADCASTING"  # MessageModel
CONSUME_POP = "CONSUME_POP"  # ConsumeType


class ProcessQueue(Struct, frozen=True):
    """One queue that a client holds (ProcessQueueInfo): what it has pulled and not finished.

    `commit_offset` is the client's own position, which the broker learns within 5 s; None when it has none.
    """

    cached_count: int
    cached_min_offset: int
    cached_max_offset: int
    commit_offset: int | None
    dropped: bool


class RunningInfo(Struct, frozen=True):
    """What a client says of itself (ConsumerRunningInfo). `pop_unacked` counts messages popped, not acknowledged."""

    properties: Mapping[str, str]
    process_queues: Mapping[MessageQueue, ProcessQueue]
    pop_unacked: Mapping[MessageQueue, int]
