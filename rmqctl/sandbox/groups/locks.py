"""Queue locks of the clients of orderly groups (RebalanceLockManager)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.codes import ResponseCode
from rmqctl.sandbox.request import RefusalError

# rocketmq.broker.rebalance.lockMaxLiveTime
LOCK_EXPIRED_S = 60.0


class QueueLocks:
    """Locks by group and queue. A lock that is not renewed for 60 s expires, whether its client is connected or not."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._held: dict[str, dict[MessageQueue, tuple[str, float]]] = {}
        self._monotonic_s = monotonic_s

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Acquire or renew locks; return the queues that the client holds now."""
        now_s = self._monotonic_s()
        held = self._held.setdefault(group, {})
        locked = []
        for queue in queues:
            owner, locked_at_s = held.get(queue, (client_id, now_s))
            if owner == client_id or now_s - locked_at_s > LOCK_EXPIRED_S:
                held[queue] = (client_id, now_s)
                locked.append(queue)
        return locked

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Release the locks on queues, where the client holds them."""
        held = self._held.get(group, {})
        for queue in queues:
            if held.get(queue, ("", 0.0))[0] == client_id:
                del held[queue]

    def drop_expired(self) -> None:
        """Delete expired locks."""
        now_s = self._monotonic_s()
        for group, held in list(self._held.items()):
            alive = {queue: lock for queue, lock in held.items() if now_s - lock[1] <= LOCK_EXPIRED_S}
            if alive:
                self._held[group] = alive
            else:
                del self._held[group]

    def keep_alive(self, client_ids: Container[str], seconds: float) -> None:
        """Treat a jump of the clock as time in which these clients renewed their locks."""
        for held in self._held.values():
            for queue, (client_id, locked_at_s) in held.items():
                if client_id in client_ids:
                    held[queue] = (client_id, locked_at_s + seconds)

    def holder(self, group: str, queue: MessageQueue) -> str | None:
        """Return the id of the client that holds a queue, None when no client does."""
        client_id, locked_at_s = self._held.get(group, {}).get(queue, ("", 0.0))
        return client_id if client_id and self._monotonic_s() - locked_at_s <= LOCK_EXPIRED_S else None

    def has_any(self, group: str) -> bool:
        """Return whether any client holds a queue of the group (the negation of isLockAllExpired)."""
        return any(self.holder(group, queue) is not None for queue in self._held.get(group, {}))


def read_lock_request(data: Any) -> tuple[str, str, list[MessageQueue]]:
    """Return the group, client id and queues of a request to lock or unlock. Raises RefusalError."""
    if not isinstance(data, dict) or data.get("consumerGroup") is None or data.get("mqSet", ()) is None:
        remark = "java.lang.NullPointerException: the request has no group or no queues"
        raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
    queues = [
        MessageQueue(item.get("topic") or "", item.get("brokerName") or "", int(item.get("queueId") or 0))
        for item in data.get("mqSet", ())
    ]
    return str(data["consumerGroup"]), str(data.get("clientId") or ""), queues
