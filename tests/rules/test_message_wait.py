from __future__ import annotations

from collections.abc import Sequence

import pytest

from rmqctl.rules.message_wait import Wait, parse_delay_levels, read_wait, recalled_key

_FOR = {"REAL_TOPIC": "T", "REAL_QID": "3"}


def test_levels_are_read_as_the_setting_has_them() -> None:
    assert parse_delay_levels("1s 5m  2h 1d x 3") == [1_000, 300_000, 7_200_000, 86_400_000]


@pytest.mark.parametrize(
    ("queue_id", "delays_ms", "expected"),
    [
        (1, [1_000, 5_000], Wait("T", 3, 2, 105_000)),
        (2, [1_000, 5_000], Wait("T", 3, 3, None, "NOT_REPORTED")),
        (1, "NOT_AUTHORISED", Wait("T", 3, 2, None, "NOT_AUTHORISED")),
    ],
)
def test_a_level_is_the_queue_and_its_delay_counts_from_the_store_time(
    queue_id: int, delays_ms: Sequence[int] | str, expected: Wait
) -> None:
    assert read_wait("SCHEDULE_TOPIC_XXXX", queue_id, 100_000, _FOR, delays_ms) == expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (_FOR | {"TIMER_OUT_MS": "159000"}, Wait("T", 3, None, 160_000)),
        (_FOR | {"TIMER_OUT_MS": "soon"}, Wait("T", 3, None, None, "NOT_REPORTED")),
        ({"REAL_TOPIC": "T", "REAL_QID": "-1"}, Wait("T", None, None, None, "NOT_REPORTED")),
    ],
)
def test_a_timer_ends_with_its_slot(properties: dict[str, str], expected: Wait) -> None:
    assert read_wait("rmq_sys_wheel_timer", 0, 100_000, properties, ()) == expected


def test_what_takes_a_message_back_names_it_with_its_topic_or_without() -> None:
    assert recalled_key(_FOR | {"TIMER_DEL_UNIQKEY": "T+U"}) == "U"
    assert recalled_key(_FOR | {"TIMER_DEL_UNIQKEY": "U"}) == "U"
    assert recalled_key(_FOR) is None
