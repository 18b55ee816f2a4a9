"""Messages that were popped and are not acknowledged yet (PopCheckPoint, PopBufferMergeService).

Real brokers write check-points and acknowledgements into rmq_sys_REVIVE_LOG_<cluster> and join them when they read it.
Here they are a write-through table: one entry for each queue that a pop read messages from.
"""

from __future__ import annotations

import heapq
from typing import Any

from msgspec import Struct, field

from rmqctl.sandbox.request import RefusalError
from rmqctl.sandbox.storage.state import StateStore

_TABLE = "pop_check_points"
# How many entries of removed check-points the heap may keep: long pops would fill it while they last.
_SPARE_COUNT = 1024


class CheckPoint(Struct):
    """Messages of one queue that were popped together: `left` are the queue offsets not yet acknowledged."""

    group: str
    topic: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    due_ms: int
    left: list[int] = field(default_factory=list)
    failed_count: int = 0

    @property
    def key(self) -> str:
        """The key that acknowledgements find it by."""
        return check_point_key(self.group, self.topic, self.queue_id, self.start_offset, self.pop_time_ms)

    def to_state(self) -> list[Any]:
        """Return its entry in the table."""
        return [
            self.group, self.topic, self.queue_id, self.start_offset, self.pop_time_ms, self.due_ms, self.left,
            self.failed_count,
        ]  # fmt: skip


def check_point_key(group: str, topic: str, queue_id: int, start_offset: int, pop_time_ms: int) -> str:
    """Return the key of a check-point."""
    return f"{topic}@{group}@{queue_id}@{start_offset}@{pop_time_ms}"


class CheckPoints:
    """All check-points of a broker.

    A new one is written before its pop is answered; a finished one is removed immediately. Partial acknowledgements are
    written by `flush()`: messages whose acknowledgement is lost in a crash are redelivered.
    """

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._points: dict[str, CheckPoint] = {}
        self._by_due: list[tuple[int, str]] = []
        self._unwritten: set[str] = set()
        for item in state.load(_TABLE).values():
            self._enter(CheckPoint(*item))

    def __len__(self) -> int:
        return len(self._points)

    def __contains__(self, key: str) -> bool:
        return key in self._points

    def put(self, point: CheckPoint) -> None:
        """Add a check-point, or change when one is due. Raises RefusalError when it cannot be written.

        Two pops from the same offset in the same millisecond, as around a reset, share one check-point.
        """
        same = self._points.get(point.key)
        if same is not None and same is not point:
            point.left = sorted({*same.left, *point.left})
        self._state.put(_TABLE, point.key, point.to_state())
        self._enter(point)

    def keep(self, point: CheckPoint) -> None:
        """Add or change a check-point that cannot be written now: `flush()` tries again."""
        self._enter(point)
        self._unwritten.add(point.key)

    def _enter(self, point: CheckPoint) -> None:
        self._points[point.key] = point
        heapq.heappush(self._by_due, (point.due_ms, point.key))
        if len(self._by_due) > _SPARE_COUNT + 2 * len(self._points):
            self._by_due = [(each.due_ms, key) for key, each in self._points.items()]
            heapq.heapify(self._by_due)

    def acknowledge(self, key: str, queue_offset: int) -> None:
        """Remove an offset from a check-point; do nothing when either is unknown, as for a late acknowledgement."""
        point = self._points.get(key)
        if point is None or queue_offset not in point.left:
            return
        if point.left == [queue_offset]:
            self.remove(key)
        else:
            point.left.remove(queue_offset)
            self._unwritten.add(key)

    def remove(self, key: str) -> None:
        """Forget a check-point."""
        self._state.delete(_TABLE, key)
        self._unwritten.discard(key)
        self._points.pop(key, None)

    def next_due_ms(self) -> int | None:
        """Return when the next check-point is due, in ms, or None."""
        first = self._first()
        return None if first is None else first.due_ms

    def take_due(self, now_ms: int) -> CheckPoint | None:
        """Return a check-point that is due, or None. It stays until it is removed or put."""
        first = self._first()
        if first is None or first.due_ms > now_ms:
            return None
        heapq.heappop(self._by_due)
        return first

    def _first(self) -> CheckPoint | None:
        # The heap may still have entries of check-points that were removed or are now due at another time.
        while self._by_due:
            due_ms, key = self._by_due[0]
            point = self._points.get(key)
            if point is not None and point.due_ms == due_ms:
                return point
            heapq.heappop(self._by_due)
        return None

    def in_flight_count(self, group: str, topic: str) -> int:
        """Return how many messages of a topic are in flight in a group."""
        return sum(len(point.left) for point in self._points.values() if (point.group, point.topic) == (group, topic))

    def flush(self) -> None:
        """Write the partial acknowledgements; those that cannot be written are retried at the next call."""
        for key in list(self._unwritten):
            try:
                self._state.put(_TABLE, key, self._points[key].to_state())
            except RefusalError:
                return
            self._unwritten.discard(key)
