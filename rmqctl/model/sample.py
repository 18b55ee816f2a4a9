"""A group at one moment: its offsets as brokers report them, and its positions as its members report them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from .failure import Failure
from .group import GroupState
from .progress import Unknown
from .queue import MessageQueue


class OwnerSample(Struct, frozen=True):
    """What one client reports of a queue that it holds (ProcessQueueInfo); times are by the client's own clock.

    `commit_offset` is the client's position (ProcessQueueInfo.position), committed to the broker every 5 s or with the
    listener's COMMIT; None when it has none.
    `is_dropped`: it has given the queue up, and is about to remove the entry. `begun_at_ms` is when it last got the
    queue, None for one that consumes in order and for clients that do not report it; `consumed_at_ms` is when it last
    finished a message, or got the queue. `is_listening`: its listener has messages of the queue, which only clients
    that consume in order report. `may_forget`: the client can forget the offset that it was reset to, and start the
    queue again at its old position.
    """

    client_id: str
    commit_offset: int | None
    cached_count: int
    cached_min_offset: int
    is_dropped: bool = False
    begun_at_ms: int | None = None
    consumed_at_ms: int | None = None
    may_forget: bool = False
    is_listening: bool = False


class QueueSample(Struct, frozen=True):
    """One queue of a group at one moment. None is unknown; `reasons` (consumerOffset, maxOffset, clientId) says why.

    `consumer_offset` is as the broker reports it: 0 can mean that no offset is stored. While a reset waits for the next
    pull (5.x) it is the reset's target, though no client is there. `owners` are clients that report that they hold the
    queue, or are dropping it. `is_popped`: the queue is consumed by POP; the broker keeps its position.
    """

    mq: MessageQueue
    consumer_offset: int | None = None
    max_offset: int | None = None
    owners: tuple[OwnerSample, ...] = ()
    is_popped: bool = False
    reasons: Mapping[str, Unknown] = {}


class ClientSample(Struct, frozen=True):
    """A client of a group: as its brokers list it, and how it consumes, by its own report.

    `version` is MQVersion's ordinal. `is_orderly` and `consume_rt_ms`, the average time of its listener in the last
    minute, are None if it did not report them.
    """

    language: str
    version: int
    is_orderly: bool | None = None
    consume_rt_ms: float | None = None


class GroupSample(Struct, frozen=True):
    """A group at one moment. `at_ms` is wall time; of `monotonic_s` only differences are meaningful.

    Offsets are read before members are asked, so a member's report is never older than the stored offset. `client_ids`
    are all members that a broker sees; `silent_ids` are the members that did not report what they hold. `clients` has
    more about members, by client id. `members_at_ms` is when members were read, None if that was at `at_ms`.
    """

    at_ms: int
    monotonic_s: float
    group: str
    state: GroupState
    client_ids: tuple[str, ...]
    queues: Mapping[MessageQueue, QueueSample]
    silent_ids: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    clients: Mapping[str, ClientSample] = {}
    members_at_ms: int | None = None
