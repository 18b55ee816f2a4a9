"""Messages of one broker: the commit log with its queues and its index (DefaultMessageStore)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum

from msgspec import Struct, field

from rmqctl.errors import RemoteProtocolError
from rmqctl.protocol.frame import MAX_FRAME_BYTES
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.properties import TAGS, encode_properties
from rmqctl.protocol.record import Host, encode_record
from rmqctl.rules.message_filters.tags import tag_code
from rmqctl.sandbox.request import RefusalError

from .commit_log import CommitLog
from .consume_queue import ConsumeQueue, Entry
from .message_index import MessageIndex, carries
from .recovery import DELETED_TOPICS, LOG_BOUNDS, MIN_OFFSETS, CodeOf, Recovery
from .segment_entries import save_entries
from .state import StateStore

# MessageStoreConfig: the default limits of one read, of messages in memory (maxTransferBytesOnMessageInMemory ...).
MAX_TRANSFER_BYTES = 256 * 1024
MAX_TRANSFER_COUNT = 32
# maxFilterMessageSize, 16,000 bytes of entries of 20 bytes: how many entries one pull scans.
MAX_SCAN_COUNT = 800


class NewMessage(Struct):
    """A message to store."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    sys_flag: int = 0
    born_at_ms: int = 0
    born_host: Host = (bytes((127, 0, 0, 1)), 0)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    # The encoded properties, where they are not just the pairs in order.
    text: bytes | None = None


def copy_of(message: StoredMessage, properties: dict[str, str]) -> NewMessage:
    """Return a stored message to store once more, with these properties."""
    return NewMessage(
        topic=message.topic, queue_id=message.queue_id, body=message.stored_body, properties=properties,
        flag=message.flag, sys_flag=message.sys_flag, born_at_ms=message.born_at_ms, born_host=message.born_address,
        reconsume_times=message.reconsume_times,
    )  # fmt: skip


class PutMessageResult(Struct, frozen=True):
    """Where a message was stored; `is_flushed` is false when a synchronous flush failed."""

    queue_offset: int
    commit_log_offset: int
    size_bytes: int
    stored_at_ms: int
    is_flushed: bool = True


class GetStatus(StrEnum):
    """How a read ended (GetMessageStatus)."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_RESET = "OFFSET_RESET"


class GetMessageResult(Struct, frozen=True):
    """What a read found: `body` are whole records, `offsets` their queue offsets."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    offsets: tuple[int, ...] = ()


AcceptsCode = Callable[[int], bool]
AcceptsMessage = Callable[[StoredMessage], bool]


class MessageStore:
    """Stores and returns messages, and drops old ones.

    `capacity_bytes` is the limit: above it, the oldest segment is removed, as on a full disk. `state` keeps what is
    not in the log: the smallest offset of each queue, and the deleted topics.
    """

    def __init__(self, log: CommitLog, capacity_bytes: int, state: StateStore | None = None) -> None:
        self.log = log
        self.index = MessageIndex()
        self.queues: dict[str, dict[int, ConsumeQueue]] = {}
        self.capacity_bytes = capacity_bytes
        self._state = state or StateStore()
        self._state.make_flush_before = log.make_flush
        log.on_full = lambda segment: save_entries(segment, self.queues, self.index)
        # How many bytes and how many messages one read returns at most.
        self.transfer_limits: Callable[[], tuple[int, int]] = lambda: (MAX_TRANSFER_BYTES, MAX_TRANSFER_COUNT)

    def put(
        self, message: NewMessage, *, now_ms: int, store_host: Host, tags_code: int | None = None
    ) -> PutMessageResult:
        """Store a message. `tags_code` replaces the tag code in the queue's entry.

        Raises ValueError for properties that cannot be written, struct.error for numbers out of range, OSError when the
        disk is full.
        """
        return self.put_all([message], now_ms=now_ms, store_host=store_host, tags_code=tags_code)[0]

    def put_all(
        self, messages: Sequence[NewMessage], *, now_ms: int, store_host: Host, tags_code: int | None = None
    ) -> list[PutMessageResult]:
        """Store messages of one queue, all or none of them. Raises as put() does."""
        topic, queue_id = messages[0].topic, messages[0].queue_id
        first_offset, start = self.max_offset(topic, queue_id), self.log.end
        topic_bytes, at = topic.encode(), start
        records: list[bytes] = []
        placed: list[PutMessageResult] = []
        for number, message in enumerate(messages):
            record = encode_record(
                topic=topic_bytes, queue_id=queue_id, queue_offset=first_offset + number, commit_log_offset=at,
                flag=message.flag, sys_flag=message.sys_flag, born_at_ms=message.born_at_ms,
                born_host=message.born_host, stored_at_ms=now_ms, store_host=store_host,
                reconsume_times=message.reconsume_times,
                prepared_transaction_offset=message.prepared_transaction_offset, body=message.body,
                properties=(
                    encode_properties(message.properties).encode() if message.text is None else message.text
                ),
            )  # fmt: skip
            records.append(record)
            placed.append(PutMessageResult(first_offset + number, at, len(record), now_ms))
            at += len(record)
        self._make_room(at - start)
        self.log.append(records[0] if len(records) == 1 else b"".join(records))
        queue = self.queue(topic, queue_id)
        for message, place in zip(messages, placed, strict=True):
            self._enter(queue, topic, message.properties, place, tags_code)
        return placed

    def _enter(
        self,
        queue: ConsumeQueue,
        topic: str,
        properties: dict[str, str],
        placed: PutMessageResult,
        tags_code: int | None,
    ) -> None:
        code = tag_code(properties.get(TAGS)) if tags_code is None else tags_code
        queue.append(placed.commit_log_offset, placed.size_bytes, code, placed.stored_at_ms)
        self.index.add(topic, properties, placed.commit_log_offset, placed.stored_at_ms)

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue; create it if it does not exist."""
        queues = self.queues.setdefault(topic, {})
        found = queues.get(queue_id)
        if found is None:
            found = queues[queue_id] = ConsumeQueue()
        return found

    def find_queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue, or None when nothing was ever stored in it."""
        return self.queues.get(topic, {}).get(queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the smallest offset that is left, 0 for a queue that does not exist."""
        queue = self.find_queue(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the next offset to be written, 0 for a queue that does not exist."""
        queue = self.find_queue(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        accepts_code: AcceptsCode | None = None,
        accepts_message: AcceptsMessage | None = None,
    ) -> GetMessageResult:
        """Read from an offset on, like DefaultMessageStore.getMessage; without a filter, every message matches."""
        queue = self.find_queue(topic, queue_id)
        if queue is None:
            return GetMessageResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if high == 0:
            return GetMessageResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return GetMessageResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return GetMessageResult(GetStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return GetMessageResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        # The first match is always returned, even when 0 messages were requested.
        max_bytes, max_transfer_count = self.transfer_limits()
        count = max(1, min(max_count, max_transfer_count))
        if accepts_code is None and accepts_message is None:
            run = self._run(queue, offset, count, max_bytes)
            if run is not None:
                return run
        scan_count = max(MAX_SCAN_COUNT, max_count)
        return self._scan(queue, offset, count, max_bytes, scan_count, accepts_code, accepts_message)

    def _run(self, queue: ConsumeQueue, offset: int, max_count: int, max_bytes: int) -> GetMessageResult | None:
        """Read messages that are adjacent in the log in one step; return None when they are not, or are too big."""
        at = offset - queue.min_offset
        sizes = queue.sizes[at : at + max_count]
        count, total = len(sizes), sum(sizes)
        start, last = queue.commit_log_offsets[at], queue.commit_log_offsets[at + count - 1]
        if total > max_bytes or last + sizes[-1] - start != total:
            return None
        body = self.log.read(start, total)
        taken = tuple(range(offset, offset + count))
        return GetMessageResult(GetStatus.FOUND, offset + count, queue.min_offset, queue.max_offset, body, taken)

    def _scan(
        self, queue: ConsumeQueue, offset: int, max_count: int, max_bytes: int, scan_count: int,
        accepts_code: AcceptsCode | None, accepts_message: AcceptsMessage | None,
    ) -> GetMessageResult:  # fmt: skip
        places, sizes, codes = queue.commit_log_offsets, queue.sizes, queue.tags_codes
        first = at = offset - queue.min_offset
        end = min(len(places), at + scan_count)
        taken: list[int] = []
        parts: list[bytes] = []
        # Messages of one queue are often adjacent in the log: such a run is read in one step.
        run_start = run_end = -1
        total = 0
        while at < end and len(taken) < max_count:
            place, size = places[at], sizes[at]
            # As in RocketMQ, a message that would not fit ends the read, also when it would be filtered out.
            if taken and total + size > max_bytes:
                break
            if accepts_code is not None and not accepts_code(codes[at]):
                at += 1
                continue
            if accepts_message is not None and not accepts_message(StoredMessage.decode(self.log.read(place, size))):
                at += 1
                continue
            if place != run_end:
                if run_end > run_start:
                    parts.append(self.log.read(run_start, run_end - run_start))
                run_start = place
            run_end = place + size
            total += size
            taken.append(queue.min_offset + at)
            at += 1
        if run_end > run_start:
            parts.append(self.log.read(run_start, run_end - run_start))
        status = GetStatus.FOUND if taken else GetStatus.NO_MATCHED_MESSAGE
        next_offset = offset + (at - first)
        return GetMessageResult(status, next_offset, queue.min_offset, queue.max_offset, b"".join(parts), tuple(taken))

    def find_entry(self, topic: str, queue_id: int, queue_offset: int) -> Entry | None:
        """Return what a queue knows about the message at an offset, or None."""
        queue = self.find_queue(topic, queue_id)
        return None if queue is None else queue.entry(queue_offset)

    def message_at(self, topic: str, queue_id: int, queue_offset: int) -> StoredMessage | None:
        """Return the message at a queue offset, or None."""
        entry = self.find_entry(topic, queue_id, queue_offset)
        return None if entry is None else self.message_in_log(entry.commit_log_offset)

    def stored_at_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return when a message was stored, epoch ms; -1 when the message does not exist."""
        entry = self.find_entry(topic, queue_id, queue_offset)
        return -1 if entry is None else entry.stored_at_ms

    def message_in_log(self, commit_log_offset: int) -> StoredMessage | None:
        """Return the message that starts at a byte offset of the log, or None."""
        size = int.from_bytes(self.log.read(commit_log_offset, 4), "big")
        if size > MAX_FRAME_BYTES:
            return None  # in the middle of a record
        record = self.log.read(commit_log_offset, size)
        if not record or len(record) != size:
            return None
        try:
            message = StoredMessage.decode(record)
        except RemoteProtocolError:
            return None
        return message if message.commit_log_offset == commit_log_offset else None

    def find_by_key(self, topic: str, key: str, limit: int, begin_ms: int, end_ms: int) -> list[StoredMessage]:
        """Return the newest messages with a key that were stored in a time range, oldest first (queryMessage).

        Times are compared with the precision of RocketMQ's index (whole seconds); both ends are included.
        """
        found: list[StoredMessage] = []
        for commit_log_offset in self.index.newest_first(topic, key):
            if len(found) >= limit:
                break
            message = self.message_in_log(commit_log_offset)
            if (
                message is not None
                and begin_ms <= self.index.indexed_at_ms(message.stored_at_ms) <= end_ms
                and carries(message, topic, key)
            ):
                found.append(message)
        return found[::-1]

    def delete_topic(self, topic: str) -> None:
        """Delete a topic's queues; its records stay in the log until their segment is removed."""
        if topic in self.queues:
            # Written in this order, before the queues are removed: with an old smallest offset, a recreated topic of
            # that name would lose its first messages at the next start.
            for queue_id in self.queues[topic]:
                self._state.delete(MIN_OFFSETS, f"{topic}@{queue_id}")
            self._state.put(DELETED_TOPICS, topic, self.log.end)
            del self.queues[topic]
            # A recreated topic of that name counts from 0; its old records must not contradict that.
            self._state.flush()

    def drop_gone_queues(self, is_kept: Callable[[str], bool]) -> None:
        """Delete queues without messages left in the log: they count from 0 again (cleanExpired)."""
        for topic in [name for name in self.queues if not is_kept(name)]:
            for queue_id, queue in list(self.queues[topic].items()):
                if not queue.commit_log_offsets and 0 <= queue.last_commit_log_offset < self.log.start:
                    self._state.delete(MIN_OFFSETS, f"{topic}@{queue_id}")
                    del self.queues[topic][queue_id]
                    self._state.flush()  # as for a topic that is deleted

    def drop_stored_before(self, time_ms: int) -> None:
        """Drop messages that were stored before a time in ms, and remove the segments that have no others."""
        self._drop_first(lambda queue: queue.drop_stored_before(time_ms))
        firsts = [
            queue.commit_log_offsets[0]
            for queues in self.queues.values() for queue in queues.values() if queue.commit_log_offsets
        ]  # fmt: skip
        self._free_before(min(firsts, default=self.log.end))

    def _make_room(self, size_bytes: int) -> None:
        while self.log.end + size_bytes - self.log.start > self.capacity_bytes:
            start = self.log.second_segment_start()
            if start is None:
                return
            self._drop_first(lambda queue, start=start: queue.drop_before(start))  # type: ignore[misc]
            self._free_before(start)

    def _drop_first(self, drop: Callable[[ConsumeQueue], None]) -> None:
        """Drop the oldest messages of queues. Their smallest offsets are written before the messages are removed."""
        for topic, queues in self.queues.items():
            for queue_id, queue in queues.items():
                drop(queue)
                if queue.min_offset:  # even if unchanged: it may not have been written the last time
                    self._state.put(MIN_OFFSETS, f"{topic}@{queue_id}", queue.min_offset)

    def _free_before(self, commit_log_offset: int) -> None:
        if self.log.has_segment_before(commit_log_offset):
            # Written first: a start would miss the messages otherwise.
            self._state.put(LOG_BOUNDS, "start", commit_log_offset)
            self._state.flush()
        self.log.drop_before(commit_log_offset)
        self.index.drop_before(self.log.start)

    def recover(self, code_of: CodeOf) -> None:
        """Build queues and index from the log. Cut off a damaged end; raises RmqctlError for other damage."""
        recovery = Recovery(self.log, self._state, code_of)
        self.queues, self.index = recovery.queues, recovery.index

    def flush(self) -> None:
        """Make all messages survive a power cut. Raises OSError."""
        self.log.flush()

    def flush_behind(self) -> None:
        """Do the same in the background where it is slow, and note which part of the log there is."""
        self.log.flush_behind()
        with suppress(RefusalError):  # a full disk
            self._state.put(LOG_BOUNDS, "start", self.log.start)
            self._state.put(LOG_BOUNDS, "end", self.log.end)

    def lose_unflushed(self, code_of: CodeOf) -> None:
        """Drop the messages that a power cut would have lost."""
        self.log.truncate(self.log.flushed)
        self.recover(code_of)
