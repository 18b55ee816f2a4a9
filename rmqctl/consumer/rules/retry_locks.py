"""Whether a retry that is sent as a new message is redelivered, or immediately becomes a dead letter.

While any member holds a queue lock of the group, brokers since 5.1.1 treat a new message to a retry topic as the last
attempt of an orderly consumer (SendMessageProcessor.handleRetryAndDLQ, RebalanceLockManager.isLockAllExpired). Locks
cannot be queried, but members report whether they are orderly, and which queues they hold.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

# RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME: how long a lock lives without being renewed.
LOCK_S = 60.0
# By this time after a join or leave, all members have rebalanced: their interval is 20 s.
SETTLED_S = 25.0


class MemberReport(Struct, frozen=True):
    """A member's last report of how it consumes; `is_orderly` None: not reported, since `silent_since_s`.

    `held_at_s` has, by broker name, when the member was last seen to hold queues of the broker.
    """

    at_s: float
    is_orderly: bool | None
    held_at_s: Mapping[str, float] = {}
    silent_since_s: float | None = None


class PossibleLocker(Struct, frozen=True):
    """A member that may hold locks at a broker. `is_orderly` False: it has not reported whether it is orderly."""

    client_id: str
    is_orderly: bool


class RetryPermission(Struct, frozen=True):
    """Whether retries may be sent to a broker as new messages. `doubtful` are members that still do not report."""

    hindrance: PossibleLocker | None
    doubtful: tuple[str, ...] = ()


def judge(
    broker_name: str,
    last_there_s: Mapping[str, float],
    reported: Mapping[str, MemberReport],
    *,
    now_s: float,
    changed_s: float,
) -> RetryPermission:
    """Judge one broker by when each other member was last seen, and by what each has reported.

    `changed_s` is when members were last seen to join or leave: queues move then, and an orderly member may be about to
    lock queues of any broker. A silent member only blocks retries for the lifetime of a lock: some kinds of clients
    never report, and a retry that cannot be sent blocks its queue.
    """
    silent: list[str] = []
    doubtful: list[str] = []
    for client_id, there_s in sorted(last_there_s.items()):
        if now_s - there_s > LOCK_S:
            continue
        said = reported.get(client_id)
        if said is None or said.is_orderly is None:
            since_s = there_s if said is None or said.silent_since_s is None else said.silent_since_s
            (silent if now_s - since_s <= LOCK_S else doubtful).append(client_id)
        elif said.is_orderly and (now_s - changed_s <= SETTLED_S or _may_hold(broker_name, there_s, said, now_s)):
            return RetryPermission(PossibleLocker(client_id, is_orderly=True))
    return RetryPermission(PossibleLocker(silent[0], is_orderly=False) if silent else None, tuple(doubtful))


def _may_hold(broker_name: str, there_s: float, said: MemberReport, now_s: float) -> bool:
    held_at_s = said.held_at_s.get(broker_name)
    if held_at_s is None:
        return False
    # Queues that it held at its last report count as held for as long as it was seen.
    return now_s - (max(there_s, held_at_s) if held_at_s == said.at_s else held_at_s) <= LOCK_S
