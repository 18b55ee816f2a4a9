"""A plan: what a change would do, item by item, with resolved numbers. It can be saved, read and applied later."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from .group import GroupState
from .queue import MessageQueue


class Operation(StrEnum):
    """What is to be done, named after the command that does it."""

    OFFSET_RESET = "offset reset"
    OFFSET_SKIP = "offset skip"
    OFFSET_CLONE = "offset clone"
    OFFSET_DELETE = "offset delete"
    OFFSET_IMPORT = "offset import"
    OFFSET_UNDO = "offset undo"
    GROUP_CREATE = "group create"
    GROUP_UPDATE = "group update"
    GROUP_DELETE = "group delete"
    CLEAN_EXPIRED = "clean-expired"
    DLQ_FIX_PERMISSION = "dlq fix-permission"
    TOPIC_CREATE = "topic create"
    TOPIC_UPDATE = "topic update"
    TOPIC_DELETE = "topic delete"
    BROKER_DRAIN = "broker drain"
    BROKER_RESTORE = "broker restore"
    MESSAGE_RESEND = "message resend"


# Operations that change configurations, and the operation that reverts each.
UNDO_OPERATIONS: Mapping[Operation, Operation] = {
    Operation.GROUP_CREATE: Operation.GROUP_DELETE,
    Operation.GROUP_UPDATE: Operation.GROUP_UPDATE,
    Operation.GROUP_DELETE: Operation.GROUP_CREATE,
    Operation.DLQ_FIX_PERMISSION: Operation.DLQ_FIX_PERMISSION,
    Operation.TOPIC_CREATE: Operation.TOPIC_DELETE,
    Operation.TOPIC_UPDATE: Operation.TOPIC_UPDATE,
    Operation.TOPIC_DELETE: Operation.TOPIC_CREATE,
    Operation.BROKER_DRAIN: Operation.BROKER_RESTORE,
    Operation.BROKER_RESTORE: Operation.BROKER_DRAIN,
}
# The code of the consequence that a topic is RocketMQ's own: its change needs the topic's name as consent.
OWN_TOPIC = "OWN_TOPIC"
_SUBJECTS = ("topic", "broker")


def is_config_change(operation: Operation) -> bool:
    """Return whether an operation changes the configuration of a group, a topic or a broker, not just offsets."""
    return operation in UNDO_OPERATIONS


def subject_kind(operation: Operation) -> str:
    """Return what an operation changes, the Subject.kind that the operator names: "group", "topic" or "broker"."""
    kind = operation.partition(" ")[0]
    return kind if kind in _SUBJECTS else "group"


def operation_name(operation: Operation, asked: str) -> str:
    """Return the name of a change; one that reverts another change is named after that one."""
    if asked.startswith("undo ") and is_config_change(operation):
        undone = next(each for each, back in UNDO_OPERATIONS.items() if back is operation)
        return f"undo of {undone}"
    return operation.value


class Route(StrEnum):
    """How a change is written.

    BROKER_WRITE: the offset is stored at the broker, for a group without members that would overwrite it
    (UPDATE_CONSUMER_OFFSET). SERVER_SIDE: the broker stores it and moves the next client that pulls there
    (INVOKE_BROKER_TO_RESET_OFFSET since 5.2.0). CLIENT_PUSH: the broker notifies the clients, which stop for 10 s and
    resume there (the same request before 5.2.0, or with useServerSideResetOffset=false). GROUP_CONFIG: the broker's
    configuration of the group. TOPIC_CONFIG: the broker's configuration of a topic. BROKER_CONFIG: the broker's
    permission (brokerPermission). NAME_SERVER: what name servers route to the broker (wipeWritePerm). RETRY_TOPIC: a
    copy of a message is stored for one group. DIRECT: one member consumes a message. POP_ACK: popped messages are
    acknowledged (ACK_MESSAGE), and no offset moves. MIXED: brokers differ.
    UNSEEN: the queue, or the broker with its configuration, should exist and could not be read: nothing is sent.
    """

    BROKER_WRITE = "BROKER_WRITE"
    SERVER_SIDE = "SERVER_SIDE"
    CLIENT_PUSH = "CLIENT_PUSH"
    GROUP_CONFIG = "GROUP_CONFIG"
    POP_ACK = "POP_ACK"
    TOPIC_CONFIG = "TOPIC_CONFIG"
    BROKER_CONFIG = "BROKER_CONFIG"
    NAME_SERVER = "NAME_SERVER"
    RETRY_TOPIC = "RETRY_TOPIC"
    DIRECT = "DIRECT"
    MIXED = "MIXED"
    UNSEEN = "UNSEEN"


class Subject(Struct, frozen=True):
    """What a change is of: a topic or a broker if there is one, else a group. As a text, for example, "group G"."""

    group: str
    topic: str | None = None
    broker: str | None = None

    @property
    def kind(self) -> str:
        """The word for it."""
        return "topic" if self.topic is not None else "broker" if self.broker is not None else "group"

    @property
    def name(self) -> str:
        """The name of the group, topic or broker."""
        return {"group": self.group, "topic": self.topic, "broker": self.broker}[self.kind] or ""

    @property
    def title(self) -> str:
        """Kind and name, for the beginning of a sentence."""
        return f"{self.kind.capitalize()} {self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class ReturnedMessage(Struct, frozen=True, rename="camel"):
    """A message of a queue that is sent back (CONSUMER_SEND_MSG_BACK): its place, and what identifies its copy.

    `origin_topic` is the topic that it was first sent to. `pop_handle` acknowledges a popped message, eight fields
    separated by blanks (ExtraInfoUtil); None for a pulled message.
    """

    queue_offset: int
    commit_log_offset: int
    message_id: str = field(name="msgId")
    origin_topic: str
    reconsume_times: int
    pop_handle: str | None = None


class ListenerBlock(StrEnum):
    """Why a client consumes nothing more from a queue until its listener returns: a restart frees the queue.

    UNKNOWN: the client does not report its threads.
    """

    IN_ORDER = "IN_ORDER"
    ALL_THREADS = "ALL_THREADS"
    UNKNOWN = "UNKNOWN"


class CleanStep(Struct, frozen=True, rename="camel"):
    """What is done before a queue moves to its target: these messages are sent back, with a delay level.

    They are in flight in `client_id` since `taken_at_ms` of its clock; None for a group without members, or when the
    client does not report it. `delay_level` -1 makes them dead letters; `max_reconsume_times` is the client's limit.
    `blocked_by` is why the client consumes nothing more once the queue has moved, None when it continues.
    """

    head_offset: int
    delay_level: int
    max_reconsume_times: int
    messages: tuple[ReturnedMessage, ...]
    client_id: str | None = None
    taken_at_ms: int | None = None
    blocked_by: ListenerBlock | None = None


class AwaitedWrite(Struct, frozen=True, rename="camel"):
    """An earlier write, of the change with this id, that was not seen to take effect and still may.

    `target` is the offset or configuration that it writes, None for one that it deletes.
    """

    receipt_id: str
    target: int | Mapping[str, Any] | None


class PlanItem(Struct, frozen=True):
    """One queue: the stored offset before, None without one, and after, None when it is deleted.

    `min_offset` and `max_offset` are the queue's bounds then; `first_store_time_ms` is that of the first message at
    the target. `reconsumed`: messages that are redelivered; `skipped`: messages that are never delivered; `lost`:
    messages that retention had deleted before the group read them. None is unknown; `reasons` says why, by name.
    When members have consumed past the stored offset, only bounds of the first two are known: `_min` and `_max`. For
    exact numbers, both bounds are the number itself. `cleaning` is what is sent back first, if anything.
    `awaits`: the queue is where it was before that write, and is brought back to `target` only once the write is seen.
    `is_there`: the group was at the target when the plan was made, by what is stored and by the member that holds it.
    """

    mq: MessageQueue
    before: int | None
    target: int | None
    route: Route
    min_offset: int | None = None
    max_offset: int | None = None
    reconsumed: int | None = None
    skipped: int | None = None
    lost: int | None = None
    first_store_time_ms: int | None = None
    note: str = ""
    reasons: Mapping[str, str] = {}
    reconsumed_min: int | None = None
    reconsumed_max: int | None = None
    skipped_min: int | None = None
    skipped_max: int | None = None
    cleaning: CleanStep | None = None
    awaits: AwaitedWrite | None = None
    is_there: bool = False

    @property
    def reconsumed_bounds(self) -> tuple[int, int] | None:
        """Least and most messages that are redelivered; plans of older releases have exact numbers only."""
        return _bounds(self.reconsumed, self.reconsumed_min, self.reconsumed_max)

    @property
    def skipped_bounds(self) -> tuple[int, int] | None:
        """Least and most messages that are never delivered, as reconsumed_bounds."""
        return _bounds(self.skipped, self.skipped_min, self.skipped_max)


def _bounds(exact: int | None, low: int | None, high: int | None) -> tuple[int, int] | None:
    if low is not None and high is not None:
        return low, high
    return None if exact is None else (exact, exact)


class ConfigItem(Struct, frozen=True):
    """One broker's whole configuration of a group or a topic, by RocketMQ's names; None without one.

    For a broker itself, it is its write permission (admin/brokers/rules/permission.py).
    UNSEEN: the broker should exist and could not be read, so `before` and `target` are unknown. `awaits` as in
    PlanItem.
    """

    broker_name: str
    before: Mapping[str, Any] | None
    target: Mapping[str, Any] | None
    note: str = ""
    route: Route = Route.GROUP_CONFIG
    awaits: AwaitedWrite | None = None

    @property
    def is_deletion(self) -> bool:
        """Whether a configuration is deleted."""
        return self.before is not None and self.target is None


class Consequence(Struct, frozen=True):
    """A consequence of a plan: a sentence for people, and a `code` for scripts that is the same in all versions."""

    code: str
    text: str


class Author(Struct, frozen=True):
    """Who made a plan, and from where."""

    user: str
    host: str
    context: str | None


class Plan(Struct, frozen=True):
    """A change, ready to be applied: `items` for offsets, `configs` for groups, topics and brokers.

    `brokers` are the masters' addresses by name, so that another cluster is not mistaken for this one;
    `read_queue_counts` are by (topic, broker name). `state`, `consume_type`, `message_model` and `client_ids` describe
    the group as it was found. `asked` is the request in words, `reason` the operator's reason. `time_ms` is the
    requested time. `filters` are the members' subscriptions to less than everything, by topic. `configured_at` are the
    brokers that have the group configured. With `takes_offsets`, a broker that deletes the group deletes all its
    offsets. Without `may_skip`, the request is to go back, so the plan must not skip unread messages. `topic` or
    `broker` is what is changed instead of a group, whose name is empty then. Plans of older releases lack the last
    nine.
    """

    id: str
    operation: Operation
    created_at_ms: int
    cluster: str
    brokers: Mapping[str, str]
    group: str
    route: Route
    asked: str = ""
    reason: str | None = None
    state: GroupState = GroupState.EMPTY
    consume_type: str | None = None
    message_model: str | None = None
    client_ids: tuple[str, ...] = ()
    read_queue_counts: Mapping[tuple[str, str], int] = {}
    items: tuple[PlanItem, ...] = ()
    configs: tuple[ConfigItem, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    author: Author | None = None
    name_servers: tuple[str, ...] = ()
    time_ms: int | None = None
    filters: Mapping[str, tuple[str, ...]] = {}
    configured_at: tuple[str, ...] = ()
    takes_offsets: bool = False
    may_skip: bool = True
    topic: str | None = None
    broker: str | None = None

    @property
    def subject(self) -> Subject:
        """What is changed."""
        return Subject(self.group, self.topic, self.broker)

    @property
    def has_unknown(self) -> bool:
        """Whether a consequence is that something is unknown."""
        return any(each.code.endswith("_UNKNOWN") for each in self.consequences)
