from __future__ import annotations

import pytest

from rmqctl.rules.retry_levels import (
    BROKER_DECIDES,
    DEAD_LETTER,
    DEFAULT_LEVELS,
    EXPIRED_LEVEL,
    delay_ms,
    is_dead_when_sent,
    level_after_failure,
    parse_levels,
    retry_limit,
)

_DELAYS_MS = parse_levels(DEFAULT_LEVELS)
_SIXTEEN = retry_limit(-1)


def test_the_levels_are_rocketmqs() -> None:
    assert len(_DELAYS_MS) == 18
    assert (_DELAYS_MS[0], _DELAYS_MS[2], _DELAYS_MS[-1]) == (1000, 10_000, 7_200_000)
    assert parse_levels("1s  5m 2h 1d") == (1000, 300_000, 7_200_000, 86_400_000)
    assert parse_levels("") == ()


@pytest.mark.parametrize("text", ["10", "1x", "1s,5s", "-1s", "1.5s", "\u0661s"])
def test_what_is_no_level_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no delay level: write 10s"):
        parse_levels(text)


def test_a_level_out_of_range_is_the_last_or_none() -> None:
    assert [delay_ms(level, _DELAYS_MS) for level in (-1, 0, 1, 18, 19, 1000)] == [0, 0, 1000, *[7_200_000] * 3]
    assert delay_ms(3, ()) == 0


def test_7_11_the_first_retry_is_level_3_and_each_waits_longer_until_the_16th() -> None:
    assert _SIXTEEN == 16
    levels = [level_after_failure(BROKER_DECIDES, times, _SIXTEEN) for times in range(17)]
    assert levels == [*range(3, 19), None]
    assert delay_ms(levels[0] or 0, _DELAYS_MS) == 10_000
    assert sum(delay_ms(level or 0, _DELAYS_MS) for level in levels) == (
        sum(_DELAYS_MS) - _DELAYS_MS[0] - _DELAYS_MS[1]
    )


def test_the_listener_may_choose_the_level_but_not_over_the_maximum() -> None:
    assert level_after_failure(1, 9, _SIXTEEN) == 1
    assert level_after_failure(1, 16, _SIXTEEN) is None
    assert level_after_failure(DEAD_LETTER, 0, _SIXTEEN) is None
    assert level_after_failure(EXPIRED_LEVEL, 15, _SIXTEEN) == 3
    assert level_after_failure(BROKER_DECIDES, 0, 0) is None


def test_orderly_consumption_retries_without_end_unless_it_is_limited() -> None:
    assert retry_limit(-1, is_orderly=True) is None
    assert retry_limit(5, is_orderly=True) == retry_limit(5) == 5
    assert level_after_failure(BROKER_DECIDES, 1000, None) == 1003


def test_a_retry_that_a_client_sends_itself_is_dead_one_time_earlier_on_4_9() -> None:
    assert [is_dead_when_sent(times, 16, since_5=False) for times in (15, 16, 17)] == [False, True, True]
    assert [is_dead_when_sent(times, 16, since_5=True) for times in (15, 16, 17)] == [False, False, True]
