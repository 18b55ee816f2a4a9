"""Queues that orderly pops hold, as in ConsumerOrderInfoManager.

A held queue delivers nothing more until all messages are acknowledged or their invisible time is over.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from rmqctl.rules.pop_handles import OffsetInfo
from rmqctl.sandbox.storage.state import StateStore

_TABLE = "pop_orders"
_Key = tuple[str, str, int]


class OrderInfo(Struct):
    """The batch that was last delivered from a queue (OrderInfo).

    `counts` is how often messages were delivered before, by queue offset; `visible_ms` are the times from which single
    messages may be redelivered, where a client changed them.
    """

    attempt_id: str | None
    pop_time_ms: int
    invisible_ms: int
    offsets: list[int]
    counts: dict[int, int] = field(default_factory=dict)
    visible_ms: dict[int, int] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)

    def free_at_ms(self, now_ms: int) -> int | None:
        """Return when its last held message will be free, in ms, or None when no message is held."""
        ends = [
            self.visible_ms.get(offset, self.pop_time_ms + self.invisible_ms)
            for offset in self.offsets if offset not in self.acknowledged
        ]  # fmt: skip
        latest = max(ends, default=now_ms)
        return latest if latest > now_ms else None

    @property
    def next_offset(self) -> int:
        """The offset of the first unacknowledged message, or the one after the batch."""
        return next((offset for offset in self.offsets if offset not in self.acknowledged), self.offsets[-1] + 1)

    def to_state(self) -> list[Any]:
        """Return its entry in the table."""
        return [
            self.attempt_id, self.pop_time_ms, self.invisible_ms, self.offsets, sorted(self.counts.items()),
            sorted(self.visible_ms.items()), sorted(self.acknowledged),
        ]  # fmt: skip

    @classmethod
    def from_state(cls, item: list[Any]) -> OrderInfo:
        """Read it from its entry in the table."""
        attempt_id, pop_time_ms, invisible_ms, offsets, counts, visible_ms, acknowledged = item
        return cls(attempt_id, pop_time_ms, invisible_ms, offsets, dict(counts), dict(visible_ms), set(acknowledged))


class OrderlyQueues:
    """The batches in flight, by topic, group and queue id; each change is written through."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._batches: dict[_Key, OrderInfo] = {}
        for text, item in state.load(_TABLE).items():
            topic, group, queue_id = text.rsplit("@", 2)
            self._batches[topic, group, int(queue_id)] = OrderInfo.from_state(item)

    def blocked_until_ms(
        self, topic: str, group: str, queue_id: int, attempt_id: str | None, now_ms: int
    ) -> int | None:
        """Return until when a queue is held, in ms, or None when it is free or held by the same attempt."""
        batch = self._batches.get((topic, group, queue_id))
        if batch is None or (batch.attempt_id is not None and batch.attempt_id == attempt_id):
            return None
        return batch.free_at_ms(now_ms)

    def hold(self, topic: str, group: str, queue_id: int, batch: OrderInfo, info: OffsetInfo) -> None:
        """Record delivered messages, and add to `info` how often they were delivered before."""
        before = self._batches.get((topic, group, queue_id))
        if before is not None:
            batch.counts = _counts_after(before, batch)
        self._write((topic, group, queue_id), batch)
        info.add_counts(topic, queue_id, batch.counts, batch.offsets)

    def acknowledge(self, topic: str, group: str, queue_id: int, queue_offset: int, pop_time_ms: int) -> int | None:
        """Record an acknowledgement; return the offset to commit, or None when it is of another pop.

        Raises ValueError for a message that was not delivered.
        """
        batch = self._batches.get((topic, group, queue_id))
        if batch is None:
            return queue_offset + 1
        if batch.pop_time_ms != pop_time_ms:
            return None
        if queue_offset not in batch.offsets:
            raise ValueError(f"{queue_offset} was not delivered")
        batch.acknowledged.add(queue_offset)
        self._write((topic, group, queue_id), batch)
        return batch.next_offset

    def change(
        self, topic: str, group: str, queue_id: int, queue_offset: int, pop_time_ms: int, visible_ms: int
    ) -> None:
        """Change when a message may be redelivered; do nothing when it was not delivered by that pop."""
        batch = self._batches.get((topic, group, queue_id))
        if batch is not None and batch.pop_time_ms == pop_time_ms:
            batch.visible_ms[queue_offset] = visible_ms
            self._write((topic, group, queue_id), batch)

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        """Free a queue."""
        if (topic, group, queue_id) in self._batches:
            self._state.delete(_TABLE, f"{topic}@{group}@{queue_id}")
            del self._batches[topic, group, queue_id]

    def forget(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Free all queues of a deleted topic or group (ConsumerOrderInfoManager.autoClean)."""
        for key in list(self._batches):
            if topic in (None, key[0]) and group in (None, key[1]):
                self.clear(*key)

    def _write(self, key: _Key, batch: OrderInfo) -> None:
        self._state.put(_TABLE, f"{key[0]}@{key[1]}@{key[2]}", batch.to_state())
        self._batches[key] = batch


def _counts_after(before: OrderInfo, batch: OrderInfo) -> dict[int, int]:
    """Return the counts of a batch: messages of the previous batch count once more, unless it is the same attempt."""
    if before.attempt_id is not None and before.attempt_id == batch.attempt_id:
        return before.counts
    return {offset: before.counts.get(offset, 0) + 1 for offset in batch.offsets if offset in before.offsets}
