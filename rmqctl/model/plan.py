"""A plan: what a change would do, item by item, with resolved numbers. It can be saved, read and applied later."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from .group import GroupState
from .queue import MessageQueue


class Operation(StrEnum):
    """What is to be done, after the command that does it."""

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


class Route(StrEnum):
    """The way that a change takes.

    BROKER_WRITE: the offset is stored at the broker, for a group in which nobody is there to store over it
    (UPDATE_CONSUMER_OFFSET). SERVER_SIDE: the broker stores it and sends whoever pulls next there, too
    (INVOKE_BROKER_TO_RESET_OFFSET from 5.2.0 on). CLIENT_PUSH: the broker tells the clients, which stop for 10 s and go
    there (the same request before, or with useServerSideResetOffset=false). GROUP_CONFIG: the broker's configuration
    of the group. TOPIC_CONFIG: the broker's configuration of the group's dead-letter topic. POP_ACK: popped messages
    are acknowledged (ACK_MESSAGE), and no offset moves. MIXED: brokers differ.
    UNSEEN: the queue, or the broker with its configuration, should be there and could not be read: nothing is sent.
    """

    BROKER_WRITE = "BROKER_WRITE"
    SERVER_SIDE = "SERVER_SIDE"
    CLIENT_PUSH = "CLIENT_PUSH"
    GROUP_CONFIG = "GROUP_CONFIG"
    POP_ACK = "POP_ACK"
    TOPIC_CONFIG = "TOPIC_CONFIG"
    MIXED = "MIXED"
    UNSEEN = "UNSEEN"


class ReturnedMessage(Struct, frozen=True):
    """A message of a queue that is sent back (CONSUMER_SEND_MSG_BACK): its place, and what its copy is known by.

    `origin_topic` is the topic that it was first sent to. `pop_handle` acknowledges a popped message, eight fields
    separated by blanks (ExtraInfoUtil); None for one that was pulled.
    """

    queue_offset: int
    commit_log_offset: int
    message_id: str
    origin_topic: str
    reconsume_times: int
    pop_handle: str | None = None


class Cleaning(Struct, frozen=True):
    """What is done before a queue goes to its target: these messages are sent back, with a delay level.

    `client_id` has them in hand since `taken_at_ms` of its clock; None for a group without members, and where the
    client does not tell. `delay_level` -1 makes dead letters of them; `max_reconsume_times` is the client's limit.
    """

    head_offset: int
    delay_level: int
    max_reconsume_times: int
    messages: tuple[ReturnedMessage, ...]
    client_id: str | None = None
    taken_at_ms: int | None = None


class Awaited(Struct, frozen=True):
    """An earlier write that was not seen to take effect and still may, of the change with this id.

    `target` is the offset or configuration that it leaves, None for one that it takes away.
    """

    receipt_id: str
    target: int | Mapping[str, Any] | None


class PlanItem(Struct, frozen=True):
    """One queue: the stored offset before, None for none, and after, None for "it is taken away".

    `min_offset` and `max_offset` are what the queue held then; `first_store_time_ms` is that of the first message at
    the target. `reconsumed`: messages that are redelivered; `skipped`: messages that are never delivered; `lost`:
    messages that retention had deleted before the group read them. None is not known, `reasons` says why, by name.
    Where members have consumed messages past the stored offset only the bounds of the first two are known: `_min` and
    `_max`, which are the number itself where it is exact. `cleaning` is what is sent back before, None for nothing.
    `awaits`: the queue is where it was before that write, and is brought back to `target` only once the write is seen.
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
    cleaning: Cleaning | None = None
    awaits: Awaited | None = None

    @property
    def reconsumed_bounds(self) -> tuple[int, int] | None:
        """The least and the most messages that are redelivered; plans of older releases have exact numbers only."""
        return _bounds(self.reconsumed, self.reconsumed_min, self.reconsumed_max)

    @property
    def skipped_bounds(self) -> tuple[int, int] | None:
        """As reconsumed_bounds, of messages that are never delivered."""
        return _bounds(self.skipped, self.skipped_min, self.skipped_max)


def _bounds(exact: int | None, low: int | None, high: int | None) -> tuple[int, int] | None:
    if low is not None and high is not None:
        return low, high
    return None if exact is None else (exact, exact)


class ConfigItem(Struct, frozen=True):
    """One broker's configuration of a group or its dead-letter topic, whole, under RocketMQ's names; None for none.

    UNSEEN: the broker should be there and could not be read, so `before` and `target` are not known. `awaits` as in
    PlanItem.
    """

    broker_name: str
    before: Mapping[str, Any] | None
    target: Mapping[str, Any] | None
    note: str = ""
    route: Route = Route.GROUP_CONFIG
    awaits: Awaited | None = None


class Consequence(Struct, frozen=True):
    """What follows from a plan: a sentence for people, and a `code` for scripts that stays the same over versions."""

    code: str
    text: str


class Author(Struct, frozen=True):
    """Who made a plan, from where."""

    user: str
    host: str
    context: str | None


class Plan(Struct, frozen=True):
    """A change, ready to be applied: `items` for offsets, `configs` for groups.

    `brokers` are the masters' addresses by name, so that no other cluster is taken for this one; `read_queue_counts`
    those of each (topic, broker name). `state`, `consume_type`, `message_model` and `client_ids` are how the group was
    found. `asked` are the words that it was asked with, `reason` is what the operator says why. `time_ms` is the time
    that it was asked to go to. `filters` are what members subscribe to other than everything, by topic. `configured_at`
    are the brokers that have the group configured. With `takes_offsets` a broker that deletes the group deletes all of
    its offsets. Plans of older releases have none of the last six.
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
