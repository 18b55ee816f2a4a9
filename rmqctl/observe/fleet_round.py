"""One round over many groups."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.model.failure import Failure
from rmqctl.model.queue import MessageQueue

from .fleet_activity import GroupActivity, GroupKey
from .recording import RecordedSample


class FleetRound(Struct, frozen=True):
    """One round: a sample of each group at the same moment, and what could not be read, each reason once.

    `unreadable` counts unread messages in queues that no consumer can read; they are not in the samples.

    `unseen` are brokers that never answered, by cluster: any group may have queues there. `read_brokers` has the
    brokers of each cluster of which all of them answered: a group without a sample has no queues on them.
    """

    at_ms: int
    samples: Mapping[GroupKey, RecordedSample]
    failures: tuple[Failure, ...]
    unseen: Mapping[str, tuple[str, ...]]
    activities: Mapping[GroupKey, GroupActivity]
    unreadable: Mapping[GroupKey, Mapping[MessageQueue, int]] = {}
    read_brokers: Mapping[str, frozenset[str]] = {}
