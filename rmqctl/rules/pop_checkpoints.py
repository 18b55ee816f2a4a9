"""Messages that are popped but not acknowledged, from a broker's pop records (PopCheckPoint, AckMsg, BatchAckMsg).

A pop writes a check point for all its messages; an acknowledgement names one or several of them. Both wait as timers
in rmq_sys_wheel_timer until just before the check point is due. Only then they are moved to the revive topic, where the
broker joins them and stores unacknowledged messages again (PopReviveService).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from rmqctl.model.names import pop_retry_topics
from rmqctl.model.queue import MessageQueue

from .pop_handles import Handle

# PopAckConstants.REVIVE_TOPIC, followed by the cluster's name.
REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
CHECK_POINT, ACK, BATCH_ACK = "ck", "ack", "bAck"


class PopHindrance(StrEnum):
    """Why a broker's popped and unacknowledged messages cannot be seen."""

    KV_SERVICE = "KV_SERVICE"
    IN_MEMORY = "IN_MEMORY"
    IN_ORDER = "IN_ORDER"
    UNREADABLE = "UNREADABLE"


HINDRANCES = {
    PopHindrance.KV_SERVICE: "keeps pops in its own store, which cannot be read (popConsumerKVServiceEnable=true)",
    PopHindrance.IN_MEMORY: "keeps pops in memory for a few seconds (enablePopBufferMerge=true)",
    PopHindrance.IN_ORDER: "keeps no check points for this group, which pops in order (consumeMessageOrderly=true)",
    PopHindrance.UNREADABLE: "did not return its pop records",
}


class PoppedRecord(Struct, frozen=True):
    """A message that is popped but not acknowledged; `handle` acknowledges it.

    `is_renewed`: its invisible time was changed since the pop. Clients do that when the listener fails, and then are no
    longer processing the message; proxies do it for messages that are being processed.
    """

    mq: MessageQueue
    queue_offset: int
    pop_time_ms: int
    invisible_ms: int
    handle: str
    is_renewed: bool = False

    @property
    def due_ms(self) -> int:
        """The time when the broker redelivers it, epoch ms by the broker's clock."""
        return self.pop_time_ms + self.invisible_ms


class UnrevivedRecords(Struct, frozen=True):
    """Pop records behind those that a broker has processed, and how long the oldest redelivery is overdue at least.

    Acknowledgements remain behind the last check point until the broker processes the next one.
    """

    record_count: int = 0
    overdue_ms: int = 0


class _Record(Struct, frozen=True):
    """One record's JSON body, with RocketMQ's keys: those of a check point, or of one or several acknowledgements."""

    c: str
    t: str
    q: int
    so: int
    pt: int
    bn: str = ""
    it: int = 0
    n: int = 0
    bm: int = 0
    d: list[int] | None = None
    ao: int = -1
    aol: list[int] = []


# Topic, queue id, start offset and pop time: an acknowledgement finds its check point by these.
_Key = tuple[str, int, int, int]


class PopRecords:
    """One broker's pop records of a group; add() them in the order in which they are stored."""

    def __init__(self, group: str, broker_name: str) -> None:
        self._group, self._broker_name = group, broker_name
        self._points: dict[_Key, tuple[_Record, int]] = {}
        self._acknowledged: set[tuple[_Key, int]] = set()
        self._latest: dict[tuple[str, int, int], _Key] = {}
        self._renewed: set[tuple[_Key, int]] = set()

    def add(self, tag: str | None, revive_queue_id: int, body: bytes) -> None:
        """Add a record; one of another group or broker is ignored. Raises ValueError for an invalid body."""
        record = msgspec.json.decode(body, type=_Record)
        if record.c != self._group or (record.bn or self._broker_name) != self._broker_name:
            return
        key = (record.t, record.q, record.so, record.pt)
        if tag == CHECK_POINT:
            self._points[key] = record, revive_queue_id
            for offset in _offsets(record):
                self._latest[record.t, record.q, offset] = key
        elif tag in (ACK, BATCH_ACK):
            for offset in _acknowledged(tag, record):
                self._acknowledged.add((key, offset))
                # A change of the invisible time writes a new check point, and then acknowledges the old one.
                latest = self._latest.get((record.t, record.q, offset), key)
                if latest != key:
                    self._renewed.add((latest, offset))

    def unacknowledged(self, now_ms: int) -> list[PoppedRecord]:
        """Return the unacknowledged messages whose invisible time is not over, the oldest pops first."""
        found = [
            self._popped(key, record, revive_queue_id, offset)
            for key, (record, revive_queue_id) in self._points.items()
            if record.pt + record.it > now_ms
            for offset in _offsets(record)
            if (key, offset) not in self._acknowledged
        ]
        return sorted(found, key=lambda each: (each.pop_time_ms, each.mq, each.queue_offset))

    def is_acknowledged(self, topic: str, queue_id: int, queue_offset: int, handle: str) -> bool:
        """Tell whether a message was acknowledged with a handle."""
        read = Handle.parse(handle)
        return ((topic, queue_id, read.start_offset, read.pop_time_ms), queue_offset) in self._acknowledged

    def _popped(self, key: _Key, record: _Record, revive_queue_id: int, offset: int) -> PoppedRecord:
        handle = Handle(record.so, record.pt, record.it, revive_queue_id, self._broker_name)
        return PoppedRecord(
            MessageQueue(record.t, self._broker_name, record.q), offset, record.pt, record.it,
            handle.to_text(record.t, record.q, offset), (key, offset) in self._renewed,
        )  # fmt: skip


def oldest_due_ms(records: Iterable[tuple[str | None, bytes, int]]) -> int | None:
    """Return when a broker had to process the first check point of these revive records that is not acknowledged.

    Each record is a tag, a body and when it was stored, epoch ms by the broker's clock, as are the results; None when
    nothing has to be redelivered. Timers deliver a check point shortly before its invisible time is over; without
    timers it is there since the pop. Acknowledgements follow their check point. The broker skips invalid records.
    """
    points: dict[tuple[str, _Key], tuple[_Record, int]] = {}
    acknowledged: set[tuple[str, _Key, int]] = set()
    for tag, body, stored_at_ms in records:
        try:
            record = msgspec.json.decode(body, type=_Record)
        except ValueError:
            continue
        key: _Key = (record.t, record.q, record.so, record.pt)
        if tag == CHECK_POINT:
            points[record.c, key] = record, stored_at_ms
        elif tag in (ACK, BATCH_ACK):
            acknowledged.update((record.c, key, offset) for offset in _acknowledged(tag, record))
    due = (
        max(stored_at_ms, record.pt + record.it)
        for (group, key), (record, stored_at_ms) in points.items()
        if any((group, key, offset) not in acknowledged for offset in _offsets(record))
    )
    return min(due, default=None)


def _acknowledged(tag: str, record: _Record) -> Sequence[int]:
    return record.aol if tag == BATCH_ACK else (record.ao,)


def _offsets(record: _Record) -> list[int]:
    """Return the queue offsets of a check point, without those that its bit map marks as acknowledged.

    Old brokers write no differences: the offsets are then consecutive (PopCheckPoint.ackOffsetByIndex).
    """
    offsets = record.d or range(record.n)
    return [record.so + offset for index, offset in enumerate(offsets) if not record.bm >> index & 1]


def is_popped_of(topic: str, group: str, asked: str) -> bool:
    """Tell whether a topic is the requested one, or the pop retry topic of it."""
    return topic in (asked, *pop_retry_topics(group, asked))
