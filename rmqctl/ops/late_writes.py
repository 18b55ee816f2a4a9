"""Writes that were sent and not answered: whether they took effect is read again for a while.

A broker may still hold such a write in a queue: writes and reads wait in different thread pools, so one that is read
back at once proves nothing but that the write has not happened yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, NotAuthorisedError, RefusedError, RmqctlError
from rmqctl.net.clock import pause
from rmqctl.rules.times import iso_time

# A broker that was stopped by a collection or a slow disk goes on within some seconds, and first works off its queue.
# None of its limits ends that wait: it cleans expired requests out of other queues, not out of that of offsets.
LOOK_AGAIN_S = 15.0
_FIRST_INTERVAL_S = 0.5
_LONGEST_INTERVAL_S = 2.0
_GROWTH = 1.5

# The broker answered that it did nothing, or nothing was asked of it.
_REFUSALS = (BrokerError, NotAuthorisedError, RefusedError)


def is_refusal(error: RmqctlError) -> bool:
    """Tell whether an error proves that the broker wrote nothing; a time-out or a lost connection does not."""
    return isinstance(error, _REFUSALS)


async def look_until_seen(client: Client, look: Callable[[], Awaitable[bool]]) -> None:
    """Call `look` until it tells that all is seen, at most LOOK_AGAIN_S and the client's deadline."""
    clock = client.clock
    until_s = clock.monotonic_s() + min(LOOK_AGAIN_S, client.deadline.remaining_s())
    interval_s = _FIRST_INTERVAL_S
    while (left_s := until_s - clock.monotonic_s()) > 0:
        await pause(clock, min(interval_s, left_s))
        # No request is sent past the deadline.
        if client.deadline.remaining_s() == 0 or await look():
            return
        interval_s = min(interval_s * _GROWTH, _LONGEST_INTERVAL_S)


def unseen_note(note: str, state: str, now_ms: int) -> str:
    """Return the note of a write without an answer: `note` says why, `state` what was read last, at now_ms."""
    return joined(note, f"{state} at {iso_time(now_ms)}; the write may still take effect.")


def joined(*sentences: str) -> str:
    """Return sentences one after the other, each with one full stop."""
    return " ".join(f"{sentence.rstrip('.')}." for sentence in sentences if sentence)
