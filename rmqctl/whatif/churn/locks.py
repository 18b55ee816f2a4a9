"""The locks of queues that are consumed in order, as brokers keep them (RebalanceLockManager).

A member renews its locks every 20 s while it reaches the broker. A lock that is not renewed for 60 s is free.
"""

from __future__ import annotations

from rmqctl.model.queue import MessageQueue

from .parties import SimulatedBroker, SimulatedMember
from .timing import LOCK_EXPIRED_MS, LOCK_RENEW_MS


class SimulatedLocks:
    """Who holds the lock of which queue."""

    def __init__(self) -> None:
        self._holders: dict[MessageQueue, SimulatedMember] = {}
        # Of holders that no longer renew their locks: when they did last.
        self._renewed_ms: dict[MessageQueue, float] = {}

    def take(self, mq: MessageQueue, member: SimulatedMember, now_ms: float) -> bool:
        """Lock a queue for a member; return False while another client has it. A client has one lock by its id."""
        holder = self._holders.get(mq)
        is_free = holder is None or holder.client_id == member.client_id
        if not is_free and now_ms - self._renewed_ms.get(mq, now_ms) <= LOCK_EXPIRED_MS:
            return False
        self._holders[mq] = member
        self._renewed_ms.pop(mq, None)
        return True

    def release(self, mq: MessageQueue, member: SimulatedMember) -> None:
        """Unlock a queue, if the client has it."""
        holder = self._holders.get(mq)
        if holder is not None and holder.client_id == member.client_id:
            del self._holders[mq]
            self._renewed_ms.pop(mq, None)

    def leave(self, member: SimulatedMember, now_ms: float, broker_name: str | None = None) -> None:
        """Note that a member no longer renews its locks, at one broker or at all."""
        for mq, holder in self._holders.items():
            if holder is member and mq not in self._renewed_ms and broker_name in (None, mq.broker_name):
                # Each member renews at its own times, as it commits.
                self._renewed_ms[mq] = now_ms - (now_ms - member.commit_phase_ms) % LOCK_RENEW_MS

    def forget(self, broker: SimulatedBroker) -> None:
        """Forget the locks of a broker that stops: they are only in memory."""
        for mq in [mq for mq in self._holders if mq.broker_name == broker.name]:
            del self._holders[mq]
            self._renewed_ms.pop(mq, None)
