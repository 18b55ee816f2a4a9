"""A consumer group's progress, queue by queue: what was read, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from .queue import MessageQueue


class Unknown(StrEnum):
    """Why a value is unknown. Every null in a row has one."""

    NEVER_COMMITTED = "NEVER_COMMITTED"
    BROADCASTING = "BROADCASTING"
    OFFSET_BEYOND_MAX = "OFFSET_BEYOND_MAX"
    BROKER_UNREACHABLE = "BROKER_UNREACHABLE"
    BROKER_NOT_REGISTERED = "BROKER_NOT_REGISTERED"
    BROKER_TOO_OLD = "BROKER_TOO_OLD"
    SLAVE_ANSWERED = "SLAVE_ANSWERED"
    NOT_AUTHORISED = "NOT_AUTHORISED"
    BROKERS_DIFFER = "BROKERS_DIFFER"
    NOTHING_CONSUMED = "NOTHING_CONSUMED"
    MESSAGE_DELETED = "MESSAGE_DELETED"
    NOTHING_UNREAD = "NOTHING_UNREAD"
    NOT_REPORTED = "NOT_REPORTED"
    NO_MEMBERS = "NO_MEMBERS"
    NOT_ASSIGNED = "NOT_ASSIGNED"
    SEVERAL_OWNERS = "SEVERAL_OWNERS"
    CLIENT_SILENT = "CLIENT_SILENT"
    POP = "POP"
    BEHIND_PROXY = "BEHIND_PROXY"


class LagState(StrEnum):
    """What a known lag means: a lag of 0 is not always that of a group that has read everything."""

    BEHIND = "BEHIND"
    CAUGHT_UP = "CAUGHT_UP"
    EXPIRED = "EXPIRED"  # unread messages were deleted, and none is left
    NO_MESSAGES = "NO_MESSAGES"  # no offset is stored, and the queue is empty


class TimeLagSource(StrEnum):
    """How a time lag was measured."""

    HEAD_STORE_TIME = "HEAD_STORE_TIME"  # age of the first unread message, by its broker's clock
    UNORDERED_STORE_TIME = "UNORDERED_STORE_TIME"  # the same, of a queue whose store times go back
    NO_BACKLOG = "NO_BACKLOG"  # nothing is unread, so it is 0


class PulledSource(StrEnum):
    """How far consumers have pulled, and how that is known."""

    BROKER = "BROKER"  # the broker's own note of the last pull (5.x)
    CLIENT = "CLIENT"  # the client has nothing cached, so its position is where it pulls next
    CLIENT_WINDOW = "CLIENT_WINDOW"  # at most up to the limit of the client's flow control


class QueueReading(Struct, frozen=True):
    """What was read about one queue, before conclusions. None is unknown; `reasons` says why.

    `at_ms` is when the broker's answer with the max offset came, by this machine's clock.
    `are_times_rising` is false if the store times of the queue were seen to decrease.
    `client_ids` are the clients that hold the queue now; `cached_count` is what they have pulled and not finished;
    `pulled_to` is the offset after the last one that any of them pulled; `first_unfinished` is the first offset that
    its only holder has pulled and not finished.
    """

    mq: MessageQueue
    min_offset: int | None = None
    max_offset: int | None = None
    consumer_offset: int | None = None
    pull_offset: int | None = None
    last_timestamp_ms: int | None = None
    head_age_ms: int | None = None
    oldest_age_ms: int | None = None
    are_times_rising: bool = True
    retention_ms: int | None = None
    client_ids: tuple[str, ...] = ()
    cached_count: int | None = None
    pulled_to: int | None = None
    pulled_source: PulledSource | None = None
    first_unfinished: int | None = None
    reasons: Mapping[str, Unknown] = field(default_factory=dict)
    at_ms: int | None = None


class CutQueue(Struct, frozen=True):
    """A queue with a stored offset that no consumer can read (any more). None: the broker did not report it."""

    mq: MessageQueue
    consumer_offset: int
    min_offset: int | None
    max_offset: int | None

    @property
    def reasons(self) -> Mapping[str, Unknown]:
        """Why offsets are None, as in QueueProgress."""
        return dict.fromkeys(("minOffset", "maxOffset"), Unknown.NOT_REPORTED)


class QueueProgress(Struct, frozen=True):
    """One row of `offset show`: the reading and what follows from it. A null's reason is in `reasons` under its name.

    lag: messages still to be consumed. lost: messages that were deleted before this group read them.
    inflight: pulled and not committed. duplicate_risk: at most this many are consumed but not committed; a crash would
    redeliver them. time_lag_ms: age of the first unread message. retention_left_ms: time until it may be deleted, at
    the earliest; 0 or less means at the next cleaning. pulled_to, first_unfinished and at_ms are from the reading.
    """

    mq: MessageQueue
    min_offset: int | None
    max_offset: int | None
    consumer_offset: int | None
    pull_offset: int | None
    lag: int | None
    lost: int | None
    inflight: int | None
    duplicate_risk: int | None
    duplicate_risk_source: PulledSource | None
    last_timestamp_ms: int | None
    time_lag_ms: int | None
    time_lag_source: TimeLagSource | None
    retention_left_ms: int | None
    client_ids: tuple[str, ...]
    reasons: Mapping[str, Unknown]
    pulled_to: int | None = None
    first_unfinished: int | None = None
    at_ms: int | None = None
