"""How long a message that failed waits for its next attempt, and after how many it is a dead letter."""

from __future__ import annotations

import re

# MessageStoreConfig.messageDelayLevel: the first is level 1.
DEFAULT_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
# Of a message's first retry, and of one whose time to be consumed is over (ProcessQueue.cleanExpiredMsg).
FIRST_LEVEL = 3
EXPIRED_LEVEL = 3
# A listener's word for "a dead letter, now", and for "the broker decides".
DEAD_LETTER = -1
BROKER_DECIDES = 0

_DEFAULT_ATTEMPTS = 16
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_levels(text: str) -> tuple[int, ...]:
    """Return the delay of each level in ms, from level 1 on. Raises ValueError for a word that is no delay."""
    words = [(word, re.fullmatch(r"(\d+)([smhd])", word, re.ASCII)) for word in text.split()]
    for word, match in words:
        if match is None:
            raise ValueError(f"{word!r} is no delay level: write 10s, 5m, 2h or 1d")
    return tuple(int(match[1]) * _UNIT_MS[match[2]] for _, match in words if match is not None)


def delay_ms(level: int, delays_ms: tuple[int, ...]) -> int:
    """Return how long a level waits: one beyond the last as long as the last, one below 1 not at all."""
    if level < 1 or not delays_ms:
        return 0
    return delays_ms[min(level, len(delays_ms)) - 1]


def retry_limit(max_reconsume_times: int, *, is_orderly: bool = False) -> int | None:
    """Return after how many retries a message is a dead letter, None for never. -1 is 16, and orderly never."""
    if max_reconsume_times != -1:
        return max_reconsume_times
    return None if is_orderly else _DEFAULT_ATTEMPTS


def level_after_failure(asked_level: int, reconsume_times: int, limit: int | None) -> int | None:
    """Return the level that a message waits in when it is sent back, None for a dead letter (consumerSendMsgBack).

    `asked_level` is the listener's; `reconsume_times` is how often the message was sent back before.
    """
    if asked_level < BROKER_DECIDES or (limit is not None and reconsume_times >= limit):
        return None
    return asked_level or FIRST_LEVEL + reconsume_times


def is_dead_when_sent(reconsume_times: int, limit: int, *, since_5: bool) -> bool:
    """Tell whether a normal message to the retry topic becomes a dead letter (handleRetryAndDLQ).

    `reconsume_times` is that of the new message, one more than of the one that failed: so 4.9 gives one retry fewer to
    what could not be sent back.
    """
    return reconsume_times > limit if since_5 else reconsume_times >= limit
