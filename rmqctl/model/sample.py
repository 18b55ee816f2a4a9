"""A group at one moment: its offsets as brokers answer them, and its positions as its members say them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from .failure import Failure
from .group import GroupState
from .progress import Unknown
from .queue import MessageQueue


class OwnerSample(Struct, frozen=True):
    """What one client says of a queue that it holds (ProcessQueueInfo); times are of the client's own clock.

    `commit_offset` is the client's position in memory, which the broker learns within 5 s; None when it has none.
    `is_dropped`: it has given the queue up, and the entry is about to go. `begun_at_ms` is when it took the queue last,
    None for one that consumes in order and for clients that don't tell; `consumed_at_ms` is when it finished a message
    last, or took the queue. `may_forget`: a client that can forget where it was sent, and take the queue anew at its
    old position.
    """

    client_id: str
    commit_offset: int | None
    cached_count: int
    cached_min_offset: int
    is_dropped: bool = False
    begun_at_ms: int | None = None
    consumed_at_ms: int | None = None
    may_forget: bool = False


class QueueSample(Struct, frozen=True):
    """One queue of a group at one moment. None is not known; `reasons` (consumerOffset, maxOffset, clientId) says why.

    `consumer_offset` is as the broker answers it: 0 can stand for "none stored", and a reset that waits for the next
    pull (5.x) answers its target though no client is there. `owners` are those that hold the queue by their own word,
    also those that drop it. `is_popped`: the queue is consumed by POP, its position lives at the broker.
    """

    mq: MessageQueue
    consumer_offset: int | None = None
    max_offset: int | None = None
    owners: tuple[OwnerSample, ...] = ()
    is_popped: bool = False
    reasons: Mapping[str, Unknown] = {}


class GroupSample(Struct, frozen=True):
    """A group at one moment. `at_ms` is wall time, `monotonic_s` a time of which only differences mean something.

    Offsets are read before members are asked, so what a member says is never older than what is stored. `client_ids`
    are all members that a broker sees, `silent_ids` those of them that did not say what they hold.
    """

    at_ms: int
    monotonic_s: float
    group: str
    state: GroupState
    client_ids: tuple[str, ...]
    queues: Mapping[MessageQueue, QueueSample]
    silent_ids: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
