"""Consumer groups: their configuration on a broker, their members, what a member says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from .queue import MessageQueue


class GroupState(StrEnum):
    """Whether a group has members, as far as its brokers can see.

    EMPTY is not offline: clients that pull without a heartbeat are not seen by brokers. UNKNOWN: nobody is seen, but
    not every broker answered, or proxies are connected, whose clients no broker sees.
    """

    ONLINE = "ONLINE"
    EMPTY = "EMPTY"
    UNKNOWN = "UNKNOWN"


class Proxies(StrEnum):
    """Whether proxies, whose clients no broker sees, are connected to a cluster.

    UNTOLD: a broker failed before any told of one. REFUSED: the account may not ask.
    """

    PRESENT = "PRESENT"
    ABSENT = "ABSENT"
    UNTOLD = "UNTOLD"
    REFUSED = "REFUSED"


class GroupConfig(Struct, frozen=True):
    """One broker's configuration of a group (SubscriptionGroupConfig); each broker has its own copy.

    `fields` are all of it under RocketMQ's names, also those that this version of rmqctl knows nothing of.
    `forbidden_topics` are those that the group may not read there (5.x).
    """

    group: str
    consume_enable: bool
    consume_broadcast_enable: bool
    retry_queue_count: int
    retry_max_times: int
    fields: Mapping[str, Any]
    forbidden_topics: tuple[str, ...] = ()


class Subscription(Struct, frozen=True):
    """One topic of a group's subscription (SubscriptionData). `version_ms` is the clock of the client that set it.

    `tags` are those of a tag expression, sorted; none for all messages and for SQL92.
    """

    topic: str
    expression: str
    expression_type: str
    version_ms: int
    tags: tuple[str, ...] = ()

    @property
    def filter_key(self) -> tuple[str, str]:
        """What two subscriptions must share to let the same messages through: `A || B` is `B||A`."""
        if self.expression_type != "TAG":
            return self.expression_type, self.expression
        # Who leaves the set of tags out has them in the expression all the same.
        tags = self.tags or {tag.strip() for tag in self.expression.split("||")} - {""}
        return self.expression_type, "||".join(sorted(tags)) or "*"


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


class MemberView(Struct, frozen=True):
    """One client as all brokers see it: its connections by broker name, and the brokers that should see it and don't.

    `untold_at` are brokers that should see it and did not answer.
    More than one address at one broker means that two clients share an id. Each connection has a port of its own.
    """

    client_id: str
    addresses: Mapping[str, tuple[str, ...]]
    unseen_at: tuple[str, ...]
    languages: tuple[str, ...]
    versions: tuple[int, ...]
    untold_at: tuple[str, ...] = ()


class SubscriptionView(Struct, frozen=True):
    """One filter of one topic, who names it, and who doesn't name the topic at all.

    `agrees` tells of the topic: all who were heard name it with the same filter. None: no client was heard.
    """

    subscription: Subscription
    broker_names: tuple[str, ...]
    client_ids: tuple[str, ...]
    lacking_brokers: tuple[str, ...]
    lacking_clients: tuple[str, ...]
    agrees: bool | None


BROADCASTING = "BROADCASTING"  # MessageModel
CLUSTERING = "CLUSTERING"
# ConsumeType: push consumers; those that pull by themselves (DefaultMQPullConsumer, DefaultLitePullConsumer); pop.
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
CONSUME_POP = "CONSUME_POP"
GO, CPP = "GO", "CPP"  # LanguageCode


class ProcessQueue(Struct, frozen=True):
    """One queue that a client holds (ProcessQueueInfo): what it has pulled and not finished.

    `commit_offset` is the client's own position, which the broker learns within 5 s; None when it has none. Of a client
    that consumes in order, messages that its listener has are not among the cached ones: they are counted by
    `in_order_count` and begin at `in_order_min_offset` (transactionMsgCount). `locked_at_ms` is when the queue was
    locked last; of one that does not consume in order, when it was taken. Times are of the client's clock.
    `unlock_tries`: how often an orderly client that gave it up waited in vain for its listener (tryUnlockTimes).
    """

    cached_count: int
    cached_min_offset: int
    cached_max_offset: int
    commit_offset: int | None
    dropped: bool
    cached_size_mib: int = 0
    locked: bool = False
    last_pull_at_ms: int | None = None
    last_consume_at_ms: int | None = None
    locked_at_ms: int | None = None
    in_order_count: int = 0
    in_order_min_offset: int = 0
    unlock_tries: int = 0

    @property
    def in_hand_count(self) -> int:
        """How many messages were pulled and are not done."""
        return self.cached_count + self.in_order_count

    @property
    def head_offset(self) -> int | None:
        """The smallest offset that was pulled and is not done, None for none."""
        heads = [self.cached_min_offset] if self.cached_count > 0 else []
        heads += [self.in_order_min_offset] if self.in_order_count > 0 else []
        return min(heads, default=None)


class ConsumeStatus(Struct, frozen=True):
    """A client's rates in one topic over the last minute, failures over the last hour (ConsumeStatus)."""

    pull_rt_ms: float
    pull_tps: float
    consume_rt_ms: float
    consume_ok_tps: float
    consume_failed_tps: float
    consume_failed_count: int


class RunningInfo(Struct, frozen=True):
    """What a client says of itself (ConsumerRunningInfo). `pop_unacked` counts messages popped, not acknowledged.

    `stacks` is a dump of its threads, None where it was not asked for one or has none. `notes` are what an application
    adds (userConsumerInfo). `popped_at_ms` is when each queue was popped last, by the client's clock. `asked_at_ms` and
    `answered_at_ms` are of this machine's clock, None where the times were not taken.
    """

    properties: Mapping[str, str]
    process_queues: Mapping[MessageQueue, ProcessQueue]
    pop_unacked: Mapping[MessageQueue, int]
    statuses: Mapping[str, ConsumeStatus] = {}
    subscriptions: tuple[Subscription, ...] = ()
    stacks: str | None = None
    notes: Mapping[str, str] = {}
    popped_at_ms: Mapping[MessageQueue, int] = {}
    asked_at_ms: int | None = None
    answered_at_ms: int | None = None
