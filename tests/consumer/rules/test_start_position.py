from __future__ import annotations

import pytest

from rmqctl.consumer.rules.start_position import AskMaxOffset, AskOffsetAt, position_from_answer, start_position
from rmqctl.model.consumption import ConsumeFromWhere as Where


@pytest.mark.parametrize("where", Where)
@pytest.mark.parametrize("is_retry_topic", [False, True])
@pytest.mark.parametrize("stored", [0, 7])
def test_7_4_a_stored_offset_always_wins(where: Where, is_retry_topic: bool, stored: int) -> None:
    # So a LAST consumer of an old group consumes its history, and a small new queue, which answers 0, from there.
    assert start_position(stored, where, is_retry_topic=is_retry_topic, since_ms=5) == stored


@pytest.mark.parametrize(
    ("where", "is_retry_topic", "expected"),
    [
        (Where.LAST_OFFSET, False, AskMaxOffset()),
        (Where.LAST_OFFSET, True, 0),
        # Literally 0, though the queue may begin above it.
        (Where.FIRST_OFFSET, False, 0),
        (Where.FIRST_OFFSET, True, 0),
        (Where.TIMESTAMP, False, AskOffsetAt(1234)),
        (Where.TIMESTAMP, True, AskMaxOffset()),
    ],
)
@pytest.mark.parametrize("stored", [None, -1])
def test_7_4_without_a_stored_offset_it_depends(
    stored: int | None, where: Where, is_retry_topic: bool, expected: object
) -> None:
    assert start_position(stored, where, is_retry_topic=is_retry_topic, since_ms=1234) == expected


def test_7_4_a_time_at_which_nothing_is_found_is_the_begin() -> None:
    assert [position_from_answer(offset) for offset in (-1, 0, 8)] == [0, 0, 8]
