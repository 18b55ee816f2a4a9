"""Messages that brokers keep elsewhere until they store them in their topics, indexed under their own keys and ids.

Delayed ones wait in SCHEDULE_TOPIC_XXXX by a delay level, in rmq_sys_wheel_timer by time. Half messages of transactions
wait in RMQ_SYS_TRANS_HALF_TOPIC, where brokers store them again with each check of the producer.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.names import DELAY_TOPIC, GIVEN_UP_TOPIC, HALF_TOPICS
from rmqctl.text.durations import short_duration
from rmqctl.text.words import counted

REAL_TOPIC, REAL_QUEUE_ID = "REAL_TOPIC", "REAL_QID"
_TIMER_OUT_MS, _RECALLED_KEY = "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY"
_PRODUCER_GROUP, _CHECK_TIMES = "PGROUP", "TRANSACTION_CHECK_TIMES"
# The wheel's slots (timerPrecisionMs). TIMER_OUT_MS is the start of the slot, which is emptied when it is over.
_SLOT_MS = 1000
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Brokers deliver delayed messages a few seconds late at times.
_LATE_MS = 10_000
# A producer that is down or slow for one check has few half messages, checked once or twice.
_MANY_HALVES, _OFTEN = 10, 3
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


class Wait(Struct, frozen=True):
    """A message's wait until it is stored in a queue of `topic`.

    Timers have no `delay_level`. `reason` says why the time when the message is due is unknown. It has been due for at
    least `overdue_ms`, 0 if it may not be due yet, None if `overdue_reason` says why that is unknown: LEFT means that
    the broker has delivered or discarded it.
    """

    topic: str
    queue_id: int | None
    delay_level: int | None
    due_at_ms: int | None
    reason: str | None = None
    overdue_ms: int | None = 0
    overdue_reason: str | None = None


class TransactionState(StrEnum):
    """What became of a half message.

    ENDED: it was rolled back, or it was committed, and the topic's index does not have the message. GIVEN_UP: the
    producer did not answer any check. A half message that was rolled back is PREPARED until the broker's next check.
    """

    PREPARED = "PREPARED"
    COMMITTED = "COMMITTED"
    ENDED = "ENDED"
    GIVEN_UP = "GIVEN_UP"


class Transaction(Struct, frozen=True):
    """The transaction of a half message for a queue of `topic`; `reason` says why its state is unknown."""

    topic: str
    queue_id: int | None
    producer_group: str | None
    check_count: int
    state: TransactionState | None
    reason: str | None = None


class LateLevel(Struct, frozen=True):
    """A delay level whose next message has been due for `overdue_ms`; `waiting_count` messages are in the level."""

    level: int
    waiting_count: int
    overdue_ms: int


class OpenHalf(Struct, frozen=True):
    """A half message that the broker has asked its producer about at least once."""

    topic: str
    producer_group: str | None
    age_ms: int
    check_count: int


class OpenHalves(Struct, frozen=True):
    """The half messages that a broker has not checked to the end.

    They are at most `most_count`, with those that have ended since the last check. `checked` are those of a sample of
    `read_count` that a check found open. `unchecked_ms` is how long the first one has waited for its first check.
    """

    most_count: int = 0
    read_count: int = 0
    checked: tuple[OpenHalf, ...] = ()
    unchecked_ms: int = 0
    given_up_count: int = 0
    given_up_age_ms: int | None = None

    @property
    def oldest(self) -> OpenHalf | None:
        """The oldest half message of the sample that a check found open."""
        return max(self.checked, key=lambda each: each.age_ms, default=None)

    def of_topics(self, topics: Container[str]) -> OpenHalves:
        """Return only what concerns these topics."""
        return replace(self, checked=tuple(each for each in self.checked if each.topic in topics))

    @property
    def is_piled_up(self) -> bool:
        """Whether more are open than a producer that is slow now and then explains."""
        return len(self.checked) >= _MANY_HALVES or any(each.check_count >= _OFTEN for each in self.checked)


class HeldBack(Struct, frozen=True):
    """What a broker keeps from consumers. `timers_overdue_ms` is the lateness of its timers, 0 for none."""

    late_levels: tuple[LateLevel, ...] = ()
    timers_overdue_ms: int = 0
    halves: OpenHalves = OpenHalves()

    def late_words(self) -> list[str]:
        """Return what is late, as parts of a sentence; brokers are seconds late now and then."""
        late = [
            f"delay level {each.level} by {short_duration(each.overdue_ms)} ({counted(each.waiting_count, 'message')})"
            for each in self.late_levels
            if each.overdue_ms >= _LATE_MS
        ]
        if self.timers_overdue_ms >= _LATE_MS:
            late.append(f"timers by {short_duration(self.timers_overdue_ms)}")
        return late


def parse_delay_levels(text: str) -> list[int]:
    """Return the delay in ms of each level, starting with level 1; words that are not delays are skipped."""
    words = [re.fullmatch(r"(\d+)([smhd])", word) for word in text.split()]
    return [int(word[1]) * _UNITS_S[word[2]] * 1000 for word in words if word is not None]


def read_wait(
    where: str, queue_id: int, stored_at_ms: int, properties: Mapping[str, str], delays_ms: Sequence[int] | str
) -> Wait:
    """Return the wait of a message in a queue of one of these topics.

    `delays_ms` are the delays of the broker's levels, or the reason why they are unknown.
    """
    topic, real_queue_id = properties.get(REAL_TOPIC, ""), _number(properties.get(REAL_QUEUE_ID))
    if where != DELAY_TOPIC:
        slot_ms = _number(properties.get(_TIMER_OUT_MS))
        due_at_ms = None if slot_ms is None else slot_ms + _SLOT_MS
        return Wait(topic, real_queue_id, None, due_at_ms, "NOT_REPORTED" if due_at_ms is None else None)
    level = queue_id + 1
    if isinstance(delays_ms, str):
        return Wait(topic, real_queue_id, level, None, delays_ms)
    if not 1 <= level <= len(delays_ms):
        return Wait(topic, real_queue_id, level, None, "NOT_REPORTED")
    return Wait(topic, real_queue_id, level, stored_at_ms + delays_ms[level - 1])


def judge_wait(wait: Wait, queue_offset: int, now_ms: int | str, delivered_offset: int | str | None) -> Wait:
    """Return a wait with its overdue time, where the message is due.

    `now_ms` is a lower bound of the broker's time, and `delivered_offset` the offset up to which it has delivered the
    level, None for a timer; a text is the reason why one is unknown.
    """
    if wait.due_at_ms is None or isinstance(now_ms, str):
        reason = wait.reason if wait.due_at_ms is None else str(now_ms)
        return replace(wait, overdue_ms=None, overdue_reason=reason)
    if isinstance(delivered_offset, int) and queue_offset < delivered_offset:
        return replace(wait, overdue_ms=None, overdue_reason="LEFT")
    if now_ms > wait.due_at_ms and isinstance(delivered_offset, str):
        return replace(wait, overdue_ms=None, overdue_reason=delivered_offset)
    return replace(wait, overdue_ms=max(0, now_ms - wait.due_at_ms))


def read_transaction(
    where: str, queue_offset: int, properties: Mapping[str, str], checked_offset: int | str
) -> Transaction:
    """Return the transaction of the last copy of a half message, which is in a queue of topic `where`.

    `checked_offset` is the offset up to which the broker has checked half messages, or the reason why it is unknown.
    """
    state: TransactionState | None = None
    reason = None
    if where == GIVEN_UP_TOPIC:
        state = TransactionState.GIVEN_UP
    elif where != HALF_TOPICS[0]:
        reason = "NOT_REPORTED"  # other brokers keep it in a RocksDB table
    elif isinstance(checked_offset, str):
        reason = checked_offset
    else:
        state = TransactionState.ENDED if queue_offset < checked_offset else TransactionState.PREPARED
    return Transaction(
        topic=properties.get(REAL_TOPIC, ""), queue_id=_number(properties.get(REAL_QUEUE_ID)),
        producer_group=properties.get(_PRODUCER_GROUP), check_count=_number(properties.get(_CHECK_TIMES)) or 0,
        state=state, reason=reason,
    )  # fmt: skip


def recalled_key(properties: Mapping[str, str]) -> str | None:
    """Return the unique key of the message that this one recalls (RecallMessageProcessor), None for any other.

    Depending on the release, the topic precedes the key.
    """
    text = properties.get(_RECALLED_KEY)
    return None if text is None else text.removeprefix(f"{properties.get(REAL_TOPIC)}+")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None
