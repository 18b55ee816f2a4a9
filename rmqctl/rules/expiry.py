"""How long a message that hangs waits until it is sent back: by RocketMQ's periodic look, and by an exact timer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

# ConsumeMessageConcurrentlyService.cleanExpireMsg looks at so many heads of each queue (ProcessQueue.cleanExpiredMsg).
HEADS_PER_LOOK = 16
# A client tells of its last pull, and a new one follows within 15 s at the broker, 5 s more until the broker looks.
_TELLS_WITHIN_MS = 30_000


class ExpiryWait(Struct, frozen=True):
    """One message that began to be consumed at a time: how long until it is sent back, in ms."""

    began_ms: int
    rocketmq_ms: int
    exact_ms: int


def expiry_waits(began_ms: Sequence[int], timeout_ms: int, first_look_ms: int) -> list[ExpiryWait]:
    """Return how long each message waits that hangs in one queue; they stand in the order of their offsets.

    RocketMQ looks every consumeTimeout, from first_look_ms on: while the first message in hand is older than
    consumeTimeout it is sent back and the next one is looked at, 16 times at most. One that is younger hides what is
    behind it. An exact timer sends each back when its time is over.
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
    """Return when a client that began at a time looks next: it does so every consumeTimeout, counted from there."""
    passed = max(0, now_ms - started_at_ms)
    return started_at_ms + (passed // timeout_ms + 1) * timeout_ms


def likely_now_ms(least_ms: int, own_ms: int) -> int:
    """Return what a client's clock shows, which showed least_ms at some time in the last 30 s.

    Ours decides, except where the two clocks cannot agree.
    """
    return own_ms if least_ms <= own_ms <= least_ms + _TELLS_WITHIN_MS else least_ms


def sent_back_in_ms(least_age_ms: int, most_age_ms: int, timeout_ms: int, look_in_ms: int) -> tuple[int, int]:
    """Return in how many ms, at least and at most, the head of a queue is sent back by RocketMQ's look.

    Its age decides which look that is.
    """
    earliest, latest = (
        expiry_waits([-age_ms], timeout_ms, look_in_ms)[0].rocketmq_ms - age_ms
        for age_ms in (max(least_age_ms, most_age_ms), least_age_ms)
    )
    return earliest, latest
