"""The shares of queues that members should hold, where they can be computed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rmqctl.diagnose.facts import GroupFacts
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.progress import QueueProgress
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import AllocationError, Assignment, Options, find_strategy
from rmqctl.rules.progress import uncommitted_count
from rmqctl.whatif.group_snapshot import GroupSnapshot, SnapshotMember, share_all

# Strategies without options, which members do not report.
_COMPUTABLE = frozenset({"averagely", "circle"})


class ComputedShares(Struct, frozen=True):
    """The shares that the members' only strategy assigns; `members` are those that answered and share queues.

    Members that pop or broadcast count in each division too (RebalanceImpl), but do not hold their shares.
    """

    snapshot: GroupSnapshot
    members: Mapping[str, SnapshotMember]
    strategy: str
    shares: Assignment

    def due(self, client_id: str) -> frozenset[MessageQueue]:
        """Return the queues that a member should pull: those of topics that it may subscribe to and does not pop."""
        member = self.members[client_id]
        return frozenset(mq for mq in self.shares.get(client_id, ()) if member.may_pull(mq.topic))


def may_lack_owner(mq: MessageQueue, row: QueueProgress | None) -> bool:
    """Return whether a queue may lack an owner for now. A retry queue that never contained a message has no row.

    A retry topic is created at the first heartbeat; members discover it up to 30 s later. An empty one can wait.
    """
    is_empty = row is None or (not row.lag and not uncommitted_count(row))
    return mq.topic.startswith(RETRY_PREFIX) and is_empty


def compute_shares(facts: GroupFacts) -> ComputedShares | None:
    """Return the shares of a group's queues, None if members do not share them or the strategy is not computable."""
    snapshot = facts.snapshot
    if snapshot is None or snapshot.live is None or not facts.is_online:
        return None
    members = {name: own for name, own in snapshot.live.members.items() if name in facts.sharers}
    (strategy, *others) = sorted({own.strategy for own in members.values() if own.strategy is not None}) or [""]
    if others or strategy not in _COMPUTABLE:
        return None  # ALO001, or a strategy whose options are unknown
    try:
        return ComputedShares(snapshot, members, strategy, share_all(snapshot, find_strategy(strategy, Options())))
    except AllocationError:
        return None
