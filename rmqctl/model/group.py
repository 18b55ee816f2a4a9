"""Consumer groups: their configuration on a broker, their members, what a member reports about itself."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from .queue import MessageQueue


class GroupState(StrEnum):
    """Whether brokers see members of a group.

    EMPTY is not offline: brokers do not see clients that pull without a heartbeat. UNKNOWN: no member is seen, but
    not every broker answered, or proxies are connected, whose clients no broker sees.
    """

    ONLINE = "ONLINE"
    EMPTY = "EMPTY"
    UNKNOWN = "UNKNOWN"


class Proxies(StrEnum):
    """Whether proxies, whose clients no broker sees, are connected to a cluster.

    UNTOLD: a broker failed before any broker reported one. REFUSED: the account has no permission to ask.
    """

    PRESENT = "PRESENT"
    ABSENT = "ABSENT"
    UNTOLD = "UNTOLD"
    REFUSED = "REFUSED"


class GroupConfig(Struct, frozen=True):
    """One broker's configuration of a group (SubscriptionGroupConfig); each broker has its own copy.

    `fields` are all its fields under RocketMQ's names, also those unknown to this version of rmqctl.
    `forbidden_topics` are the topics that the group may not read there (5.x).
    """

    group: str
    consume_enable: bool
    consume_broadcast_enable: bool
    retry_queue_count: int
    retry_max_times: int
    fields: Mapping[str, Any]
    forbidden_topics: tuple[str, ...] = ()


class Subscription(Struct, frozen=True):
    """A filter on one topic (SubscriptionData). `version_ms` is from the clock of the client that set it.

    Brokers keep the newest version of a group's members. `tags` are the tags of a tag expression, empty for all
    messages and for SQL92; their `codes` are set only for our own subscriptions.
    """

    topic: str
    expression: str = "*"
    expression_type: str = "TAG"
    version_ms: int = 0
    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()

    @property
    def is_everything(self) -> bool:
        """Whether all messages of the topic match."""
        return self.filter_key == ("TAG", "*")

    @property
    def filter_key(self) -> tuple[str, str]:
        """The key that is equal for subscriptions that match the same messages: `A || B` is `B||A`."""
        if self.expression_type != "TAG":
            return self.expression_type, self.expression
        # A client that leaves the set of tags out still has them in the expression.
        tags = self.tags or {tag.strip() for tag in self.expression.split("||")} - {""}
        return self.expression_type, "||".join(sorted(tags)) or "*"


class Member(Struct, frozen=True):
    """One connection of a group at one broker. The connection is the key: a client id may appear twice."""

    client_id: str
    client_address: str
    language: str
    version: int


class ProducerInfo(Struct, frozen=True):
    """One connection of a producer group at one broker. `heard_at_ms` is its last heartbeat, by the broker's clock.

    None: the broker was asked for connections only (GET_PRODUCER_CONNECTION_LIST), which have no times.
    """

    client_id: str
    client_address: str
    language: str
    version: int
    heard_at_ms: int | None


class GroupConnections(Struct, frozen=True):
    """Answer of GET_CONSUMER_CONNECTION_LIST: the members connected to one broker, and the settings of the last one."""

    members: tuple[Member, ...]
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: Mapping[str, Subscription]


class MemberView(Struct, frozen=True):
    """One client as all brokers see it: its addresses by broker name, and `unseen_at`, brokers that wrongly lack it.

    `untold_at` are brokers that should see it and did not answer.
    More than one address at one broker means that two clients share an id. Each connection has its own port.
    """

    client_id: str
    addresses: Mapping[str, tuple[str, ...]]
    unseen_at: tuple[str, ...]
    languages: tuple[str, ...]
    versions: tuple[int, ...]
    untold_at: tuple[str, ...] = ()


class SubscriptionView(Struct, frozen=True):
    """One filter of one topic, the brokers and clients that have it, and those that lack the topic altogether.

    `agrees` is about the topic: all clients that answered have the same filter. None: no client answered.
    """

    subscription: Subscription
    broker_names: tuple[str, ...]
    client_ids: tuple[str, ...]
    lacking_brokers: tuple[str, ...]
    lacking_clients: tuple[str, ...]
    agrees: bool | None


BROADCASTING = "BROADCASTING"  # MessageModel
CLUSTERING = "CLUSTERING"
# ConsumeType: push consumers; consumers that pull by themselves (DefaultMQPullConsumer, DefaultLitePullConsumer); pop.
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
CONSUME_POP = "CONSUME_POP"
GO, CPP = "GO", "CPP"  # LanguageCode


class ProcessQueueInfo(Struct, frozen=True):
    """One queue that a client holds (ProcessQueueInfo): what it has pulled and not finished.

    `commit_offset` is the client's own position, committed to the broker every 5 s; None when it has none. The cached
    messages of a client that consumes in order do not include those that its listener has: `in_order_count` counts
    them, and they start at `in_order_min_offset` (transactionMsgCount). At least the first `uncommitted_count` of these
    are consumed, and wait for COMMIT (ConsumeOrderlyContext.autoCommit). `locked_at_ms` is when the queue was last
    locked, or, without ordering, when it was assigned. Times are by the client's clock.
    `unlock_tries`: how many times an orderly client that gave the queue up waited in vain for its listener
    (tryUnlockTimes).
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
    uncommitted_count: int = 0

    @property
    def unacked_count(self) -> int:
        """Number of messages that were pulled and are not acknowledged: what the client's flow control counts."""
        return self.cached_count + self.in_order_count

    @property
    def in_hand_count(self) -> int:
        """Number of messages that were pulled and are not finished."""
        return self.unacked_count - self.uncommitted_count

    @property
    def is_listening(self) -> bool:
        """Whether an orderly client's listener may have messages of the queue."""
        return self.in_order_count > self.uncommitted_count

    @property
    def position(self) -> int | None:
        """The offset up to which the client has consumed everything, committed or not; None when it reports none."""
        return self.in_order_min_offset + self.uncommitted_count if self.uncommitted_count else self.commit_offset

    @property
    def head_offset(self) -> int | None:
        """Smallest offset that was pulled and is not finished; None when there is no such message."""
        heads = [self.cached_min_offset] if self.cached_count > 0 else []
        heads += [self.in_order_min_offset + self.uncommitted_count] if self.is_listening else []
        return min(heads, default=None)


class TopicConsumeStatus(Struct, frozen=True):
    """A client's rates in one topic over the last minute, and failures over the last hour (ConsumeStatus)."""

    pull_rt_ms: float
    pull_tps: float
    consume_rt_ms: float
    consume_ok_tps: float
    consume_failed_tps: float
    consume_failed_count: int


class DirectResult(Struct, frozen=True):
    """How a member's listener ended on one message (ConsumeMessageDirectlyResult): CMResult, remark, time in ms."""

    result: str
    remark: str
    spent_ms: int


class RunningInfo(Struct, frozen=True):
    """What a client reports about itself (ConsumerRunningInfo). `pop_unacked` counts messages popped, not acknowledged.

    `stacks` is a thread dump, None if it was not requested or the client has none. `notes` are added by the application
    (userConsumerInfo). `popped_at_ms` is when each queue was last popped, by the client's clock. `asked_at_ms` and
    `answered_at_ms` are by this machine's clock, None when they were not measured.
    """

    properties: Mapping[str, str]
    process_queues: Mapping[MessageQueue, ProcessQueueInfo]
    pop_unacked: Mapping[MessageQueue, int]
    statuses: Mapping[str, TopicConsumeStatus] = {}
    subscriptions: tuple[Subscription, ...] = ()
    stacks: str | None = None
    notes: Mapping[str, str] = {}
    popped_at_ms: Mapping[MessageQueue, int] = {}
    asked_at_ms: int | None = None
    answered_at_ms: int | None = None
