"""How long a stuck message waits until it is sent back: by RocketMQ's periodic check, and by an exact timer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

# The heads per queue that ConsumeMessageConcurrentlyService.cleanExpireMsg checks (ProcessQueue.cleanExpiredMsg).
HEADS_PER_LOOK = 16
# A client reports its last pull; the next one follows after 15 s at the broker and 5 s more until the broker checks.
_TELLS_WITHIN_MS = 30_000


class ExpiryWait(Struct, frozen=True):
    """One message, when its consumption began, and how long until it is sent back either way; in ms."""

    began_ms: int
    rocketmq_ms: int
    exact_ms: int


def expiry_waits(began_ms: Sequence[int], timeout_ms: int, first_look_ms: int) -> list[ExpiryWait]:
    """Return how long each stuck message of one queue waits, in the order of their offsets.

    RocketMQ checks every consumeTimeout, starting at first_look_ms. While the first message in flight is older than
    consumeTimeout, it is sent back and the next one is checked, at most 16 times. A younger message hides those behind
    it. An exact timer sends each message back when its own time is over.
    """
    waits: list[ExpiryWait] = []
    look_ms = first_look_ms
    while len(waits) < len(began_ms):
        for began in began_ms[len(waits) : len(waits) + HEADS_PER_LOOK]:
            if look_ms - began <= timeout_ms:
                break
            waits.append(ExpiryWait(began, look_ms - began, timeout_ms))
        look_ms += timeout_ms
    return waits


def next_look_ms(started_at_ms: int, timeout_ms: int, now_ms: int) -> int:
    """Return when a client checks next: it does so every consumeTimeout, counted from its start."""
    passed = max(0, now_ms - started_at_ms)
    return started_at_ms + (passed // timeout_ms + 1) * timeout_ms


def likely_now_ms(least_ms: int, own_ms: int) -> int:
    """Return the likely time of a client's clock that showed `least_ms` at some moment in the last 30 s.

    Our own clock decides, except where the two clocks cannot agree.
    """
    return own_ms if least_ms <= own_ms <= least_ms + _TELLS_WITHIN_MS else least_ms


def sent_back_in_ms(least_age_ms: int, most_age_ms: int, timeout_ms: int, look_in_ms: int) -> tuple[int, int]:
    """Return in how many ms, at least and at most, RocketMQ's check sends the head of a queue back.

    The age of the head decides which check that is.
    """
    earliest, latest = (
        expiry_waits([-age_ms], timeout_ms, look_in_ms)[0].rocketmq_ms - age_ms
        for age_ms in (max(least_age_ms, most_age_ms), least_age_ms)
    )
    return earliest, latest
