"""Where a consumer starts a queue that it was just assigned (RebalancePushImpl.computePullFromWhere)."""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct

from rmqctl.model.consumption import ConsumeFromWhere


class AskMaxOffset(Struct, frozen=True):
    """Start at the end of the queue, which its broker must be asked for (GET_MAX_OFFSET)."""


class AskOffsetAt(Struct, frozen=True):
    """Start with the message stored at a time, which its broker must be asked for (SEARCH_OFFSET_BY_TIMESTAMP)."""

    at_ms: int


def start_position(
    stored_offset: int | None, where: ConsumeFromWhere, *, is_retry_topic: bool, since_ms: int
) -> int | AskMaxOffset | AskOffsetAt:
    """Return the offset to start at, or the question to ask the broker for it.

    A stored offset always wins. None means that no offset is stored: a queue whose offset could not be read is not
    added in this rebalance. `since_ms` is for TIMESTAMP. The 0 of FIRST may be below the first message left; the first
    pull corrects that. In the retry topic only TIMESTAMP skips existing messages.
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
    """Return where to start after a broker's answer, which may be below 0 when no message was found."""
    return max(0, offset)
