"""Messages delivered at a given time (TimerMessageStore, since 5.0): TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS.

Such a message waits in rmq_sys_wheel_timer. The slots of RocketMQ's wheel are whole seconds (timerPrecisionMs), and a
slot is emptied when it is over, so a message is delivered at the first whole second at or after its time.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Mapping, Sequence

from rmqctl.net.clock import Clock, Timer
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.properties import UNIQ_KEY
from rmqctl.rules.message_wait import REAL_QUEUE_ID, REAL_TOPIC
from rmqctl.sandbox.request import RefusalError
from rmqctl.sandbox.settings import ServerSettings
from rmqctl.sandbox.storage.state import StateStore
from rmqctl.sandbox.storage.store import MessageStore, NewMessage
from rmqctl.sandbox.topics.table import SCHEDULE_TOPIC, TIMER_TOPIC

from .delays import RETRY_S, TURN_COUNT, delay_level, deliver_waiting, released, set_aside, was_delivered

TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"

# The properties that request a time; the first one present counts.
ASKED_BY = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)

_TABLE = "timers"
# The offset before which all messages were delivered; other entries are single delivered offsets after it.
_DONE_BEFORE = "before"
# The message whose delivery started last, and where the log ended before it.
_RELEASING = "releasing"
_LONG = re.compile(r"[+-]?[0-9]{1,19}")


class Timers:
    """The waiting messages, by the slot they are due in. `deliver` stores one; `now_ms` is the broker's clock."""

    def __init__(
        self, clock: Clock, now_ms: Callable[[], int], store: MessageStore, state: StateStore, settings: ServerSettings,
        deliver: Callable[[NewMessage], object],
    ) -> None:  # fmt: skip
        self._clock = clock
        self._now_ms = now_ms
        self._store = store
        self._state = state
        self._settings = settings
        self._deliver = deliver
        self._timer: Timer | None = None
        # A heap of (slot, 0 for a message that recalls others of its slot, queue offset).
        self._waiting: list[tuple[int, int, int]] = []
        # What is recalled in the slot being emptied, and the offsets of the recalling messages.
        self._recalled: set[tuple[int, str]] = set()
        self._recalls: list[int] = []
        # Changes of the table to write, None for an entry to delete.
        self._unwritten: dict[str, int | bool | None] = {}
        self._done_before = 0
        self._done: set[int] = set()
        self._is_started = False
        self._load()

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        """Start delivering; messages that are already due are delivered immediately."""
        self._is_started = True
        self._waiting = []
        queue = self._store.find_queue(TIMER_TOPIC, 0)
        if queue is None:
            return
        self._done_before = max(self._done_before, queue.min_offset)
        for offset in range(self._done_before, queue.max_offset):
            message = None if offset in self._done else self._store.message_at(TIMER_TOPIC, 0, offset)
            if message is not None:
                self._enter(offset, message.properties)
        self._arm()

    def stop(self) -> None:
        """Stop delivering."""
        self._is_started = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rearm(self) -> None:
        """Set the timer again, because the broker's clock was changed."""
        self._arm()

    def divert(self, message: NewMessage) -> None:
        """Redirect a message that requests a delivery time, so that it waits (HookUtils.handleScheduleMessage).

        Raises RefusalError for an invalid time.
        """
        properties = message.properties
        if not any(name in properties for name in ASKED_BY):
            return
        if delay_level(properties) > 0:  # which takes precedence
            for name in ASKED_BY:
                properties.pop(name, None)
            return
        if TIMER_OUT_MS in properties or message.topic == TIMER_TOPIC:
            return
        if not self._settings.flag("timerWheelEnable"):
            remark = "accurate timer message is not enabled, timerWheelEnable is false"
            raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)
        longest_ms = self._settings.number("timerMaxDelaySec") * 1000
        now_ms = self._now_ms()
        wanted_ms = _wanted_time(properties, now_ms)
        is_late = wanted_ms is not None and wanted_ms <= now_ms
        if wanted_ms is None or wanted_ms - now_ms > longest_ms or (is_late and TIMER_DEL_UNIQKEY in properties):
            raise _illegal_time(longest_ms)
        if is_late:
            return
        slot_ms = self._settings.number("timerPrecisionMs")
        properties[TIMER_OUT_MS] = str((wanted_ms - 1) // slot_ms * slot_ms)
        set_aside(message, TIMER_TOPIC, 0)

    def stored(self, first_offset: int, messages: Sequence[NewMessage]) -> None:
        """Add messages that were stored to wait."""
        for offset, message in enumerate(messages, first_offset):
            self._enter(offset, message.properties)
        self._arm()

    def _enter(self, offset: int, properties: Mapping[str, str]) -> None:
        text = properties.get(TIMER_OUT_MS, "")
        if _LONG.fullmatch(text) and _has_target(properties):
            heapq.heappush(self._waiting, (int(text), 0 if TIMER_DEL_UNIQKEY in properties else 1, offset))
        # All others were sent directly to this topic. In RocketMQ, the first one stops all timers for good.

    def _due_ms(self, slot: int) -> int:
        return slot + self._settings.number("timerPrecisionMs")

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self._is_started:
            wait_s = max(0, self._due_ms(self._waiting[0][0]) - self._now_ms()) / 1000
            self._timer = self._clock.call_later(wait_s, self._run)

    def _run(self) -> None:
        self._timer = None
        for _ in range(TURN_COUNT):
            if not self._waiting or self._due_ms(self._waiting[0][0]) > self._now_ms():
                self._finish_recalls()
                break
            # Recalling messages come before the other messages of their slot.
            slot, is_message, offset = self._waiting[0]
            waiting = self._store.message_at(TIMER_TOPIC, 0, offset)
            if waiting is not None and not is_message:
                self._recalled.add((slot, waiting.properties[TIMER_DEL_UNIQKEY]))
                self._recalls.append(offset)
                heapq.heappop(self._waiting)
                continue
            if waiting is not None and not self._release(waiting, slot, offset):
                self._timer = self._clock.call_later(RETRY_S, self._run)
                return
            heapq.heappop(self._waiting)
            self._mark(offset)
            self._try_to_write_marks()
        self._arm()

    def _load(self) -> None:
        """Read which messages were delivered before a restart. Raises RefusalError."""
        done = self._state.load(_TABLE)
        releasing = done.pop(_RELEASING, None)
        self._done_before = int(done.pop(_DONE_BEFORE, 0))
        self._done = {int(offset) for offset in done}
        queue_end = self._store.max_offset(TIMER_TOPIC, 0)
        lost = {offset for offset in self._done if offset >= queue_end}
        if lost or self._done_before > queue_end:
            # A power cut lost the messages, but not their marks. New messages will get their offsets.
            self._done -= lost
            self._done_before = min(self._done_before, queue_end)
            self._unwritten = {_DONE_BEFORE: self._done_before, **{str(offset): None for offset in lost}}
            self._write_marks()
        if releasing is not None:
            self._settle(*releasing)

    def _settle(self, offset: int, log_end: int) -> None:
        """Determine after a restart whether the last delivery was completed."""
        waiting = self._store.message_at(TIMER_TOPIC, 0, offset)
        is_marked = offset < self._done_before or offset in self._done
        if waiting is not None and not is_marked and was_delivered(self._store, waiting, log_end):
            self._mark(offset)

    def _finish_recalls(self) -> None:
        # Not before the slot is empty: after a kill, the rest of the slot must still be recalled.
        for offset in self._recalls:
            self._mark(offset)
        self._recalls.clear()
        self._recalled.clear()
        self._try_to_write_marks()

    def _release(self, waiting: StoredMessage, slot: int, offset: int) -> bool:
        message = released(waiting)
        if (slot, delete_key(message.topic, message.properties.get(UNIQ_KEY, ""), self._settings)) in self._recalled:
            return True
        message.properties[TIMER_ENQUEUE_MS] = str(waiting.stored_at_ms)
        message.properties[TIMER_DEQUEUE_MS] = str(self._now_ms())
        try:
            # Exactly once even if the process is killed now: it counts as delivered if it is stored where the log ends
            # now. Earlier deliveries must be marked before that.
            self._write_marks()
            self._state.put(_TABLE, _RELEASING, [offset, self._store.log.end])
        except RefusalError:
            return False
        return deliver_waiting(self._deliver, message)

    def _mark(self, offset: int) -> None:
        """Mark a message as finished."""
        if offset != self._done_before:
            self._done.add(offset)
            self._unwritten[str(offset)] = True
            return
        self._done_before += 1
        self._unwritten[_DONE_BEFORE] = self._done_before
        while self._done_before in self._done:
            self._done.remove(self._done_before)
            self._unwritten[str(self._done_before)] = None
            self._done_before += 1
        self._unwritten[_DONE_BEFORE] = self._done_before

    def _write_marks(self) -> None:
        """Write the marks. Raises RefusalError; the rest is retried the next time."""
        for key, value in list(self._unwritten.items()):
            if value is None:
                self._state.delete(_TABLE, key)
            else:
                self._state.put(_TABLE, key, value)
            del self._unwritten[key]

    def _try_to_write_marks(self) -> None:
        try:
            self._write_marks()
        except RefusalError:
            pass  # a full disk; nothing more is delivered until they are written


def delete_key(topic: str, unique_key: str, settings: ServerSettings) -> str:
    """Return the key with which a message recalls another (TimerMessageStore.buildDeleteKey).

    By default, it recalls the messages of all topics that have this unique key and the same time.
    """
    return f"{topic}+{unique_key}" if settings.flag("appendTopicForTimerDeleteKey") else unique_key


def _has_target(properties: Mapping[str, str]) -> bool:
    """Return whether a message has a target other than the timer topic, where it would loop forever."""
    topic, queue_id = properties.get(REAL_TOPIC), properties.get(REAL_QUEUE_ID, "")
    return topic not in (None, TIMER_TOPIC, SCHEDULE_TOPIC) and _LONG.fullmatch(queue_id) is not None


def _wanted_time(properties: Mapping[str, str], now_ms: int) -> int | None:
    """Return the time that a message requests, in ms, or None when it is not a number."""
    name = next(name for name in ASKED_BY if name in properties)
    text = properties[name]
    if not _LONG.fullmatch(text):
        return None
    wanted = int(text)
    return {TIMER_DELAY_SEC: now_ms + wanted * 1000, TIMER_DELAY_MS: now_ms + wanted, TIMER_DELIVER_MS: wanted}[name]


def _illegal_time(longest_ms: int) -> RefusalError:
    return RefusalError(
        ResponseCode.MESSAGE_ILLEGAL,
        f"timer message illegal, the delay time should not be bigger than the max delay {longest_ms}ms; or if set del "
        "msg, the delay time should be bigger than the current time",
    )
