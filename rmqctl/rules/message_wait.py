"""Messages that wait until they are due: by a delay level in SCHEDULE_TOPIC_XXXX, by time in rmq_sys_wheel_timer.

Brokers index them there under their own keys and ids. When one is due, the broker stores it again, in its topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.model.names import DELAY_TOPIC

REAL_TOPIC, REAL_QUEUE_ID = "REAL_TOPIC", "REAL_QID"
_TIMER_OUT_MS, _RECALLED_KEY = "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY"
# The wheel's slots (timerPrecisionMs). TIMER_OUT_MS is the start of the slot, which is emptied when it is over.
_SLOT_MS = 1000
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


class Wait(Struct, frozen=True):
    """A message's wait until it is stored in a queue of `topic`.

    Timers have no `delay_level`. `reason` says why the time when the message is due is unknown.
    """

    topic: str
    queue_id: int | None
    delay_level: int | None
    due_at_ms: int | None
    reason: str | None = None


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


def recalled_key(properties: Mapping[str, str]) -> str | None:
    """Return the unique key of the message that this one recalls (RecallMessageProcessor), None for any other.

    Depending on the release, the topic precedes the key.
    """
    text = properties.get(_RECALLED_KEY)
    return None if text is None else text.removeprefix(f"{properties.get(REAL_TOPIC)}+")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None
