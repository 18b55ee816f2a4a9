"""Messages that come later by a delay level (ScheduleMessageService).

A delayed message waits in SCHEDULE_TOPIC_XXXX, in the queue of its level, with the time it is due in place of its
tag's code. When due it is stored again under the topic and queue that it was meant for.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping

from rmqctl.net.clock import Clock, Timer
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.properties import UNIQ_KEY
from rmqctl.rules.waiting import REAL_QUEUE_ID, REAL_TOPIC, parse_delay_levels

from .data_version import DataVersion
from .record_scan import Found
from .recovery import CodeOf
from .request import FailureError, RefusalError
from .state import StateStore
from .store import MessageStore, NewMessage
from .topics import SCHEDULE_TOPIC

logger = logging.getLogger("rmqctl.sandbox")

DELAY = "DELAY"

# How long the broker waits when it could not deliver (DELAY_FOR_A_PERIOD is 10 s there).
RETRY_S = 1.0
# How many messages are delivered before other work gets a turn.
TURN_COUNT = 200

# By level: what comes next, and where the log ended before the last message was delivered.
_TABLE = "delays"
_SETTLED = -1
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")


class Delays:
    """The levels' queues. `deliver` stores a message that is due; `now_ms` is the broker's clock."""

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
        """How many levels there are."""
        return len(self._delays_ms)

    def start(self) -> None:
        """Begin to deliver; what became due before is delivered at once."""
        for level in range(1, self.level_count + 1):
            self._arm(level)

    def stop(self) -> None:
        """Deliver nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def rearm(self) -> None:
        """Wait anew: the broker's clock was set."""
        self.stop()
        self.start()

    def divert(self, message: NewMessage) -> int | None:
        """Send a message that has a delay level to wait; returns when it is due, None for one that has none.

        Raises FailureError for a level that is no number.
        """
        level = delay_level(message.properties)
        if level <= 0 or not self._delays_ms:
            return None
        level = min(level, self.level_count)
        set_aside(message, SCHEDULE_TOPIC, level - 1)
        return self._now_ms() + self._delays_ms[level - 1]

    def stored(self, queue_id: int) -> None:
        """Note that a message came to wait in a level's queue."""
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
        """Return when the first message of a level is due, None when none waits."""
        queue = self._store.find_queue(SCHEDULE_TOPIC, level - 1)
        entry = None if queue is None else queue.entry(self._next(level))
        if entry is None:
            return None
        # A clock that was set back makes nobody wait longer than the level's delay (correctDeliverTimestamp).
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
        """Deliver a message, once also when the process is killed meanwhile; tells whether its wait is over.

        What is written before says that it is delivered if it is what stands in the log where that ends now.
        """
        try:
            self._state.put(_TABLE, str(level), [at + 1, self._store.log.end])
        except RefusalError:
            return False
        return deliver_waiting(self._deliver, released(waiting))

    def _settled(self, level: int, next_offset: int, log_end: int) -> int:
        """Return what comes next in a level after a restart. Raises RefusalError."""
        queue_end = self._store.max_offset(SCHEDULE_TOPIC, level - 1)
        if next_offset > queue_end:
            # A power cut took the messages, but not what is known of them. New ones will have their offsets.
            self._state.put(_TABLE, str(level), [queue_end, _SETTLED])
            return queue_end
        last = self._store.message_at(SCHEDULE_TOPIC, level - 1, next_offset - 1)
        if log_end == _SETTLED or last is None or was_delivered(self._store, last, log_end):
            return next_offset
        return next_offset - 1

    def offsets(self, *, also_waiting: bool) -> dict[int, int]:
        """Return how many messages of each level were delivered, of unused levels only on demand."""
        used = {queue_id + 1: 0 for queue_id in self._store.queues.get(SCHEDULE_TOPIC, {})} if also_waiting else {}
        return {**used, **self.consumed}


def set_aside(message: NewMessage, topic: str, queue_id: int) -> None:
    """Let a message wait in another queue; its own one stays in its properties."""
    message.properties[REAL_TOPIC] = message.topic
    message.properties[REAL_QUEUE_ID] = str(message.queue_id)
    message.topic, message.queue_id, message.text = topic, queue_id, None


def deliver_waiting(deliver: Callable[[NewMessage], object], message: NewMessage) -> bool:
    """Store a message whose wait is over; tells whether its wait is over indeed, for the disk may be full.

    One that can't be stored for what it is has gone, as at RocketMQ's (PUT_NO_RETRY).
    """
    try:
        deliver(message)
    except RefusalError as refusal:
        logger.warning("a message of %s was not delivered: %s", message.topic, refusal.remark)
        return refusal.code != ResponseCode.SERVICE_NOT_AVAILABLE
    return True


def was_delivered(store: MessageStore, waiting: StoredMessage, log_end: int) -> bool:
    """Tell whether a message whose wait was over is what stands at an offset of the log.

    That the log has grown does not tell it: when the disk was full, something else may stand there.
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
    """Return a message's delay level, 0 for none. Raises FailureError for one that is no number."""
    text = properties.get(DELAY)
    if text is None:
        return 0
    level = int(text) if _NUMBER.fullmatch(text) else 2**31
    if not -(2**31) <= level < 2**31:
        raise FailureError(f'java.lang.NumberFormatException: For input string: "{text}"')
    return level


def due_times(levels: str) -> CodeOf:
    """Return what tells when a stored message is due, None for one that is not waiting (checkMessageAndReturnSize)."""
    delays_ms = parse_delay_levels(levels)

    def code_of(found: Found) -> int | None:
        if found.topic != SCHEDULE_TOPIC or not 0 <= found.queue_id < len(delays_ms):
            return None
        return found.stored_at_ms + delays_ms[found.queue_id]

    return code_of


def released(waiting: StoredMessage) -> NewMessage:
    """Return the message as it is stored when its time has come: under its own topic, with all its properties."""
    properties = waiting.properties
    return NewMessage(
        topic=properties.get(REAL_TOPIC, ""), queue_id=int(properties.get(REAL_QUEUE_ID, "0")),
        body=waiting.stored_body, properties=properties, flag=waiting.flag, sys_flag=waiting.sys_flag,
        born_at_ms=waiting.born_at_ms, born_host=waiting.born_address, reconsume_times=waiting.reconsume_times,
    )  # fmt: skip
