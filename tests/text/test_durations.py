from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.text.durations import parse_duration_ms, short_duration

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("0", 0),
        ("0.0", 0),
        ("500ms", 500),
        ("10s", 10 * SECOND),
        ("0.5s", 500),
        ("1m30s", 90 * SECOND),
        ("2h", 2 * HOUR),
        ("1.5h", 90 * MINUTE),
        ("3d", 3 * DAY),
        ("1d2h3m4s5ms", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + 5),
        (" 5s ", 5 * SECOND),
        ("10S", 10 * SECOND),
        ("500MS", 500),
        ("PT1H", HOUR),
        ("pt1h30m", 90 * MINUTE),
        ("P1D", DAY),
        ("P1DT1H1M1.5S", DAY + HOUR + MINUTE + 1_500),
        ("PT0S", 0),
        ("PT36H", 36 * HOUR),
        ("36500d", 36_500 * DAY),
    ],
)
def test_a_duration_in_its_many_ways_to_write_it(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "s", "ms", "h2", "1x", "1 s", "1m 30s", "1,5s", "-1s", "+1s", "1e3", "1e3s", ".5s", "5.s", "1..5s"),
        *("1m30", "inf", "nan", "infs", "0x10", "1_000", "P", "PT", "P1H", "PT1D", "P1W", "PT1H1H", "PT-1H", "1h\n2s"),
        *("36501d", "9" * 400 + "s", "PT" + "9" * 400 + "H", "now", "2h ago"),
    ],
)
def test_anything_else_is_an_error_that_shows_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="use for example 500ms, 10s, 1m30s, 2h, 3d or PT1H") as caught:
        parse_duration_ms(text)
    assert str(caught.value).startswith(f"invalid duration {text!r}: ")


@pytest.mark.parametrize("text", ["2", "10", "1.5", "0.5", "007", "9" * 400])
def test_a_number_without_a_unit_could_be_hours_or_seconds(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' has no unit: use {text}h, {text}m or {text}s"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    "text", ["\u0661\u0660", "\u0661\u0660s", "PT\u0661H", "\uff11\uff10s", "PT1\u017f", "\u00b2s"]
)
def test_digits_and_letters_of_other_scripts_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0s"),
        (950, "950ms"),
        (999, "999ms"),
        (1_000, "1s"),
        (1_999, "1s"),
        (59_999, "59s"),
        (60_000, "1m00s"),
        (185_000, "3m05s"),
        (3_599_999, "59m59s"),
        (HOUR, "1h00m"),
        (2 * HOUR + 10 * MINUTE, "2h10m"),
        (DAY - 1, "23h59m"),
        (4 * DAY + 3 * HOUR, "4d3h"),
        (-90_000, "-1m30s"),
        (-1, "-1ms"),
    ],
)
def test_a_short_duration_has_two_units_at_most_and_is_rounded_down(duration_ms: int, text: str) -> None:
    assert short_duration(duration_ms) == text


@given(st.integers(0, 36_500 * DAY))
def test_a_short_duration_reads_back_as_no_more_than_it_was(duration_ms: int) -> None:
    again_ms = parse_duration_ms(short_duration(duration_ms))
    assert again_ms <= duration_ms
    unit_ms = 1 if duration_ms < SECOND else SECOND if duration_ms < HOUR else MINUTE if duration_ms < DAY else HOUR
    assert duration_ms - again_ms < unit_ms


@given(st.integers(0, 36_500 * DAY))
def test_whole_milliseconds_round_trip(duration_ms: int) -> None:
    assert parse_duration_ms(f"{duration_ms}ms") == duration_ms


@given(st.text(max_size=20) | st.text("0123456789.smhdptPT -", max_size=12))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        duration_ms = parse_duration_ms(text)
    except ValueError:
        return
    assert 0 <= duration_ms <= 36_500 * DAY
