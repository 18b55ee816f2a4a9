"""Messages delayed by a delay level (ScheduleMessageService).

A delayed message waits in SCHEDULE_TOPIC_XXXX, in the queue of its level, with its due time in place of its tag's
code. When it is due, it is stored again, in its own topic and queue.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping

from rmqctl.net.clock import Clock, Timer
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.properties import UNIQ_KEY
from rmqctl.rules.message_wait import REAL_QUEUE_ID, REAL_TOPIC, parse_delay_levels
from rmqctl.sandbox.data_version import DataVersion
from rmqctl.sandbox.request import FailureError, RefusalError
from rmqctl.sandbox.storage.record_scan import ScannedRecord
from rmqctl.sandbox.storage.recovery import CodeOf
from rmqctl.sandbox.storage.state import StateStore
from rmqctl.sandbox.storage.store import MessageStore, NewMessage, copy_of
from rmqctl.sandbox.topics.table import HALF_TOPIC, SCHEDULE_TOPIC

logger = logging.getLogger("rmqctl.sandbox")

DELAY = "DELAY"

# The wait after a failed delivery (RocketMQ's DELAY_FOR_A_PERIOD is 10 s).
RETRY_S = 1.0
# The number of messages delivered before other work gets a turn.
TURN_COUNT = 200

# Per level: the next offset, and the end of the log before the last message was delivered.
_TABLE = "delays"
_SETTLED = -1
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")


class Delays:
    """The queues of the delay levels. `deliver` stores a message that is due; `now_ms` reads the broker's clock."""

    def __init__(
        self, clock: Clock, now_ms: Callable[[], int], store: MessageStore, state: StateStore, levels: str,
        deliver: Callable[[NewMessage], object],
    ) -> None:  # fmt: skip
        self.version = DataVersion(now_ms)
        self._clock = clock
        self._now_ms = now_ms
        self._store = store
        self._state = state
        self._delays_ms = parse_delay_levels(levels)
        self._deliver = deliver
        self._timers: dict[int, Timer] = {}
        self.consumed = {int(level): self._settled(int(level), *entry) for level, entry in state.load(_TABLE).items()}

    @property
    def level_count(self) -> int:
        """The number of levels."""
        return len(self._delays_ms)

    def start(self) -> None:
        """Start delivering; messages that are already due are delivered immediately."""
        for level in range(1, self.level_count + 1):
            self._arm(level)

    def stop(self) -> None:
        """Stop delivering."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def rearm(self) -> None:
        """Restart the timers after the broker's clock was set."""
        self.stop()
        self.start()

    def divert(self, message: NewMessage) -> int | None:
        """Redirect a message with a delay level to the queue of that level.

        Returns its due time, epoch ms; None for a message without a delay level. Raises FailureError for a level that
        is not a number.
        """
        level = delay_level(message.properties)
        if level <= 0 or not self._delays_ms:
            return None
        level = min(level, self.level_count)
        set_aside(message, SCHEDULE_TOPIC, level - 1)
        return self._now_ms() + self._delays_ms[level - 1]

    def stored(self, queue_id: int) -> None:
        """Start the timer of a level after a message was stored in its queue."""
        level = queue_id + 1
        if level not in self._timers and 1 <= level <= self.level_count:
            self._arm(level)

    def _arm(self, level: int) -> None:
        due_ms = self._head(level)
        if due_ms is not None:
            wait_s = max(0, due_ms - self._now_ms()) / 1000
            self._timers[level] = self._clock.call_later(wait_s, lambda: self._run(level))

    def _next(self, level: int) -> int:
        return max(self.consumed.get(level, 0), self._store.min_offset(SCHEDULE_TOPIC, level - 1))

    def _head(self, level: int) -> int | None:
        """Return when the first message of a level is due, None when no message waits."""
        entry = self._store.find_entry(SCHEDULE_TOPIC, level - 1, self._next(level))
        if entry is None:
            return None
        # After the clock was set back, no message waits longer than the level's delay (correctDeliverTimestamp).
        now_ms = self._now_ms()
        return entry.tags_code if entry.tags_code <= now_ms + self._delays_ms[level - 1] else now_ms

    def _run(self, level: int) -> None:
        self._timers.pop(level, None)
        for _ in range(TURN_COUNT):
            due_ms = self._head(level)
            if due_ms is None or due_ms > self._now_ms():
                break
            at = self._next(level)
            waiting = self._store.message_at(SCHEDULE_TOPIC, level - 1, at)
            if waiting is not None and not self._release(level, at, waiting):
                self._timers[level] = self._clock.call_later(RETRY_S, lambda: self._run(level))
                return
            self.consumed[level] = at + 1
            self.version.next()
        self._arm(level)

    def _release(self, level: int, at: int, waiting: StoredMessage) -> bool:
        """Deliver a message exactly once, even if the process is killed meanwhile. Return whether its wait is over.

        The entry is written before the delivery. After a restart, the message counts as delivered if it is the message
        at the end of the log that the entry names.
        """
        try:
            self._state.put(_TABLE, str(level), [at + 1, self._store.log.end])
        except RefusalError:
            return False
        message = released(waiting)
        # A half message that a client delayed: its own topic is lost, and brokers discard it.
        return message.topic == HALF_TOPIC or deliver_waiting(self._deliver, message)

    def _settled(self, level: int, next_offset: int, log_end: int) -> int:
        """Return the next offset of a level after a restart. Raises RefusalError."""
        queue_end = self._store.max_offset(SCHEDULE_TOPIC, level - 1)
        if next_offset > queue_end:
            # A power cut lost the messages, but not this entry. New messages will get their offsets.
            self._state.put(_TABLE, str(level), [queue_end, _SETTLED])
            return queue_end
        last = self._store.message_at(SCHEDULE_TOPIC, level - 1, next_offset - 1)
        if log_end == _SETTLED or last is None or was_delivered(self._store, last, log_end):
            return next_offset
        return next_offset - 1

    def offsets(self, *, also_waiting: bool) -> dict[int, int]:
        """Return the number of delivered messages per level; `also_waiting` adds 0 for levels that only wait."""
        used = {queue_id + 1: 0 for queue_id in self._store.queues.get(SCHEDULE_TOPIC, {})} if also_waiting else {}
        return {**used, **self.consumed}


def set_aside(message: NewMessage, topic: str, queue_id: int) -> None:
    """Redirect a message to a queue where it waits; its own topic and queue are kept in its properties."""
    message.properties[REAL_TOPIC] = message.topic
    message.properties[REAL_QUEUE_ID] = str(message.queue_id)
    message.topic, message.queue_id, message.text = topic, queue_id, None


def deliver_waiting(deliver: Callable[[NewMessage], object], message: NewMessage) -> bool:
    """Store a message whose wait is over. Return False when the disk is full and the delivery must be retried.

    A message that is rejected for any other reason is lost, as in RocketMQ (PUT_NO_RETRY).
    """
    try:
        deliver(message)
    except RefusalError as refusal:
        logger.warning("a message of %s was not delivered: %s", message.topic, refusal.remark)
        return refusal.code != ResponseCode.SERVICE_NOT_AVAILABLE
    return True


def was_delivered(store: MessageStore, waiting: StoredMessage, log_end: int) -> bool:
    """Return whether a message whose wait is over is the message at an offset of the log.

    A longer log does not prove this: when the disk was full, another message may be at that offset.
    """
    found, wanted = store.message_in_log(log_end), released(waiting)
    return (
        found is not None
        and REAL_TOPIC in found.properties
        and found.properties.get(UNIQ_KEY) == wanted.properties.get(UNIQ_KEY)
        and (found.topic, found.queue_id, found.stored_body) == (wanted.topic, wanted.queue_id, wanted.body)
        and (found.born_at_ms, found.reconsume_times) == (wanted.born_at_ms, wanted.reconsume_times)
    )


def delay_level(properties: Mapping[str, str]) -> int:
    """Return the delay level of a message, 0 for none. Raises FailureError for a level that is not a number."""
    text = properties.get(DELAY)
    if text is None:
        return 0
    level = int(text) if _NUMBER.fullmatch(text) else 2**31
    if not -(2**31) <= level < 2**31:
        raise FailureError(f'java.lang.NumberFormatException: For input string: "{text}"')
    return level


def due_times(levels: str) -> CodeOf:
    """Return a function from a stored message to its due time, None if it does not wait (checkMessageAndReturnSize)."""
    delays_ms = parse_delay_levels(levels)

    def code_of(found: ScannedRecord) -> int | None:
        if found.topic != SCHEDULE_TOPIC or not 0 <= found.queue_id < len(delays_ms):
            return None
        return found.stored_at_ms + delays_ms[found.queue_id]

    return code_of


def released(waiting: StoredMessage) -> NewMessage:
    """Return the message as it is stored when it is due: under its own topic, with all its properties."""
    message = copy_of(waiting, waiting.properties)
    message.topic = message.properties.get(REAL_TOPIC, "")
    message.queue_id = int(message.properties.get(REAL_QUEUE_ID, "0"))
    return message
