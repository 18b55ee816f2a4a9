from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.text.times import Edge, iso_time, month_times_ms, parse_time, time_fields

NOW_MS = 1_795_255_307_145  # 2026-11-21T10:01:47.145Z
BERLIN = ZoneInfo("Europe/Berlin")


def _ms(*parts: int) -> int:
    return round(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T10:00:00Z", _ms(2026, 11, 21, 10)),
        ("2026-11-21T10:00:00.123Z", _ms(2026, 11, 21, 10) + 123),
        ("2026-11-21 10:00+08:00", _ms(2026, 11, 21, 2)),
        ("2026-11-21T10:00", _ms(2026, 11, 21, 9)),
        ("20261121T1000Z", _ms(2026, 11, 21, 10)),
        ("2026-11-21t10:00:00,5z", _ms(2026, 11, 21, 10) + 500),
        ("2026-11-21", _ms(2026, 11, 20, 23)),
        ("2026-07-21T10:00", _ms(2026, 7, 21, 8)),
        ("2026-11-21#10:00:00:007", _ms(2026, 11, 21, 9) + 7),
        ("1795255307", 1_795_255_307_000),
        ("1795255307145", 1_795_255_307_145),
        ("now", NOW_MS),
        (" NOW ", NOW_MS),
        ("2h", NOW_MS - 7_200_000),
        ("-30m", NOW_MS - 1_800_000),
        ("PT1H", NOW_MS - 3_600_000),
        ("-PT1H", NOW_MS - 3_600_000),
        ("0s", NOW_MS),
        ("earliest", Edge.EARLIEST),
        ("Latest", Edge.LATEST),
    ],
)
def test_every_form_is_read(text: str, expected: int | Edge) -> None:
    assert parse_time(text, NOW_MS, BERLIN) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "invalid time"),
        ("yesterday", "invalid time"),
        ("2026-13-01", "invalid time"),
        ("2026-11-21T25:00", "invalid time"),
        ("2026-11-21#10:00:00:00", "invalid time"),
        ("2026-11-21x10:00", "invalid time"),
        ("2026-W47-6", "invalid time"),
        ("20261121", "ambiguous"),
        ("20261121100000", "ambiguous"),
        ("0", "ambiguous"),
        ("17952553071", "ambiguous"),
        ("+2h", "invalid time"),
        ("--2h", "invalid time"),
        ("100y", "invalid time"),
        ("1969-12-31T23:59:59Z", "between the years"),
        ("0001-01-01T00:00:00+14:00", "between the years"),
        ("٢٠٢٦-11-21", "invalid time"),
    ],
)
def test_what_is_no_time_or_could_be_several_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_time(text, NOW_MS, BERLIN)


def test_a_duration_before_1970_is_refused() -> None:
    with pytest.raises(ValueError, match="between the years 1970 and 9999"):
        parse_time("80d", 1_000, UTC)


@pytest.mark.parametrize("text", ["2026-10-25T02:30", "2026-03-29T02:30"], ids=["comes twice", "is skipped"])
def test_an_hour_that_clocks_repeat_or_skip_needs_a_zone(text: str) -> None:
    with pytest.raises(ValueError, match="add a zone"):
        parse_time(text, NOW_MS, BERLIN)
    assert parse_time(f"{text}+01:00", NOW_MS, BERLIN) == _ms(*map(int, text[:10].split("-")), 1, 30)


def test_without_a_zone_the_machines_counts() -> None:
    expected = datetime.fromisoformat("2026-01-02T03:04").timestamp() * 1000
    assert parse_time("2026-01-02T03:04", NOW_MS) == expected


_TIMES = st.integers(min_value=0, max_value=253_402_300_799_999)
_ZONES = st.integers(min_value=-14 * 60, max_value=14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(at_ms=_TIMES.filter(lambda at: at < 250_000_000_000_000 and at > 100_000_000), zone=_ZONES)
def test_a_time_that_is_written_is_read_back(at_ms: int, zone: timezone) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    local = at.astimezone(zone)
    assert parse_time(local.isoformat(), NOW_MS, UTC) == at_ms
    assert parse_time(local.replace(tzinfo=None).isoformat(), NOW_MS, zone) == at_ms
    ms = local.microsecond // 1000
    assert parse_time(f"{local:%Y-%m-%d#%H:%M:%S}:{ms:03}".rjust(23, "0"), NOW_MS, zone) == at_ms


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_refused_with_a_sentence(text: str) -> None:
    try:
        read = parse_time(text, NOW_MS, UTC)
    except ValueError as error:
        said = str(error)
        assert repr(text) in said
    else:
        assert isinstance(read, Edge) or 0 <= read <= 253_402_300_799_999


@given(now_ms=st.integers(min_value=1_000_000_000_000, max_value=4_000_000_000_000), ago_days=st.integers(0, 60))
def test_a_unique_keys_time_is_among_its_readings(now_ms: int, ago_days: int) -> None:
    made_at_ms = now_ms - ago_days * 86_400_000
    month = datetime.fromtimestamp(made_at_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    since_month_ms = made_at_ms - round(month.timestamp() * 1000)
    readings = month_times_ms(since_month_ms, now_ms)
    assert made_at_ms in readings
    assert readings == sorted(readings, reverse=True)


def test_what_is_longer_than_any_month_is_no_unique_keys_time() -> None:
    assert month_times_ms(40 * 86_400_000, NOW_MS) == []
    # 31 days fit only into months that have them.
    shown = [datetime.fromtimestamp(at / 1000, UTC).month for at in month_times_ms(31 * 86_400_000 - 1, NOW_MS)]
    assert shown == [10, 8, 7] or shown == [10, 8]


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_795_238_122_995, "2026-11-21T05:15:22.995Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, None),
        (-1, None),
        (2**63 - 1, None),
        (None, None),
    ],
)
def test_a_time_is_utc_with_milliseconds_or_none(at_ms: int | None, text: str | None) -> None:
    assert iso_time(at_ms) == text
    assert time_fields("at", at_ms) == {"at": at_ms, "atIso": text}
    assert time_fields("atMs", at_ms) == {"atMs": at_ms, "atIso": text}
