"""Where a queue begins that a consumer has just been given (RebalancePushImpl.computePullFromWhere)."""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct

from rmqctl.model.consuming import ConsumeFromWhere


class AskMaxOffset(Struct, frozen=True):
    """It begins at the end of the queue, which its broker has to be asked for (GET_MAX_OFFSET)."""


class AskOffsetAt(Struct, frozen=True):
    """It begins with what was stored at a time, which its broker has to be asked for (SEARCH_OFFSET_BY_TIMESTAMP)."""

    at_ms: int


def start_position(
    stored_offset: int | None, where: ConsumeFromWhere, *, is_retry_topic: bool, since_ms: int
) -> int | AskMaxOffset | AskOffsetAt:
    """Return the offset to begin at, or what to ask the broker for it.

    A stored offset always wins. None is for none stored, and not for one that could not be read: then the queue is not
    taken in this round. `since_ms` is for TIMESTAMP. The 0 of FIRST may be below what the queue still has; its first
    pull corrects that. In the retry topic only TIMESTAMP leaves out what is there.
    """
    if stored_offset is not None and stored_offset >= 0:
        return stored_offset
    match where:
        case ConsumeFromWhere.LAST_OFFSET:
            return 0 if is_retry_topic else AskMaxOffset()
        case ConsumeFromWhere.FIRST_OFFSET:
            return 0
        case ConsumeFromWhere.TIMESTAMP:
            return AskMaxOffset() if is_retry_topic else AskOffsetAt(since_ms)
        case _:
            assert_never(where)


def position_from_answer(offset: int) -> int:
    """Return where to begin after a broker's answer; it may be below 0 where nothing was found."""
    return max(0, offset)
