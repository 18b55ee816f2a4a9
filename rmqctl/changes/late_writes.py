"""Writes that were sent and not answered: rmqctl reads again for a while whether they took effect.

A broker may still have such a write in a request queue. Writes and reads wait in different thread pools, so an
immediate read only proves that the write has not happened yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from rmqctl.client.core import Client
from rmqctl.errors import BrokerError, NotAuthorisedError, RefusedError, RmqctlError
from rmqctl.model.plan import AwaitedWrite, ConfigItem, Consequence, PlanItem
from rmqctl.model.queue import MessageQueue
from rmqctl.model.receipt import ConfigReceiptItem, Receipt, ReceiptItem, Result
from rmqctl.net.clock import pause
from rmqctl.text.times import iso_time
from rmqctl.text.words import listed

# A broker that was stopped by a garbage collection or a slow disk resumes within some seconds, and first works off its
# queue. No limit of the broker ends that wait: it removes expired requests from other queues, not from that of offsets.
LOOK_AGAIN_S = 15.0
_FIRST_INTERVAL_S = 0.5
_LONGEST_INTERVAL_S = 2.0
_GROWTH = 1.5
# A broker works its queue off within minutes after it resumes, or is restarted, which loses the queue: a write that was
# not seen this long after its change ended will not happen any more.
IN_FLIGHT_MS = 3_600_000
LOOKING = f"Looking for up to {LOOK_AGAIN_S:g} s for writes that were not seen and may still take effect..."
_MAY_COME = "write may still take effect."

# The broker answered that it did nothing, or was not asked.
_REFUSALS = (BrokerError, NotAuthorisedError, RefusedError)


def is_refusal(error: RmqctlError) -> bool:
    """Return whether an error proves that the broker wrote nothing; a time-out or a lost connection does not."""
    return isinstance(error, _REFUSALS)


async def read_until_seen(client: Client, look: Callable[[], Awaitable[bool]]) -> None:
    """Call `look` until it returns true, for at most LOOK_AGAIN_S and not after the client's deadline."""
    clock = client.clock
    until_s = clock.monotonic_s() + min(LOOK_AGAIN_S, client.deadline.remaining_s())
    interval_s = _FIRST_INTERVAL_S
    while (left_s := until_s - clock.monotonic_s()) > 0:
        await pause(clock, min(interval_s, left_s))
        # No request is sent past the deadline.
        if client.deadline.remaining_s() == 0 or await look():
            return
        interval_s = min(interval_s * _GROWTH, _LONGEST_INTERVAL_S)


def stored_words(queue_offset: int | None) -> str:
    """Return, in words, which offset was last read."""
    return f"{'No offset' if queue_offset is None else f'Offset {queue_offset}'} is stored"


def unseen_note(note: str, state: str, now_ms: int) -> str:
    """Return the note of an unanswered write: `note` says why, `state` is what was last read, at now_ms."""
    return joined(note, f"{state} (last read at {iso_time(now_ms)}). The {_MAY_COME}")


def awaited_writes(receipt: Receipt, now_ms: int) -> dict[MessageQueue | str, AwaitedWrite]:
    """Return the writes of a change that were not seen and may still take effect, by queue or broker name."""
    if now_ms - (receipt.ended_at_ms or receipt.started_at_ms) > IN_FLIGHT_MS:
        return {}
    items: tuple[ReceiptItem | ConfigReceiptItem, ...] = (*receipt.items, *receipt.configs)
    return {
        item.mq if isinstance(item, ReceiptItem) else item.broker_name: AwaitedWrite(receipt.id, item.target)
        for item in items
        if item.result is Result.UNKNOWN
        # An interrupted change had not finished looking.
        and (receipt.ended_at_ms is None or not item.is_after_known or item.note.endswith(_MAY_COME))
    }


def unseen_again_note(awaits: AwaitedWrite, state: str, error: RmqctlError | None, now_ms: int) -> str:
    """Return the note of an item of an undo whose earlier write was not seen.

    `state` is what was last read, at now_ms; `error` is why it could not be read.
    """
    said = f"{state} (last read at {iso_time(now_ms)})" if error is None else f"It could not be read: {error.sentence}"
    more = f"The write of {awaits.receipt_id} was not seen and may still take effect: run the same undo again later"
    return joined(said, more)


def describe_awaited(items: Iterable[PlanItem | ConfigItem]) -> tuple[Consequence, ...]:
    """Return which items of an undo await an earlier write that was not seen yet, and what that means."""
    awaited = {
        item.mq if isinstance(item, PlanItem) else item.broker_name: item.awaits.receipt_id
        for item in items
        if item.awaits is not None
    }
    if not awaited:
        return ()
    receipt_id = next(iter(awaited.values()))  # an undo is of one change
    text = (
        f"The write of {receipt_id} has not been seen yet and may still take effect: {listed(awaited)}. "
        f"The undo waits for it for up to {LOOK_AGAIN_S:g} s and reverts it. "
        "If it is not seen, the exit code is 9: run the same undo again later."
    )
    return (Consequence("NOT_SEEN_YET", text),)


def describe_never_seen(places: Sequence[object], receipt_id: str) -> tuple[Consequence, ...]:
    """Return where nothing is left to revert, though the effect of a write was never seen."""
    if not places:
        return ()
    text = f"As before: {listed(places)}. It is unknown whether {receipt_id} ever took effect there."
    return (Consequence("NEVER_SEEN", text),)


def joined(*sentences: str) -> str:
    """Return sentences joined by blanks, each with one full stop."""
    return " ".join(f"{sentence.rstrip('.')}." for sentence in sentences if sentence)
