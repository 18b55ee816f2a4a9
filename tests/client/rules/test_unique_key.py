"""Unique keys, held against those of Java's producers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from ipaddress import ip_address
from zoneinfo import ZoneInfo

import pytest

from rmqctl.client.rules.unique_key import UniqueKeys, month_ms
from rmqctl.protocol.message_id import decode_unique_key
from rmqctl.protocol.properties import decode_properties
from tests.protocol.golden import answers, decode

ADDRESS = bytes((10, 0, 0, 7))


def _ms(*date: int) -> int:
    return round(datetime(*date, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


def test_keys_of_java_come_out_digit_by_digit() -> None:
    for exchange in answers(310):
        fields = decode(exchange.request).ext_fields
        java = decode_properties(fields["i"])["UNIQ_KEY"]
        read = decode_unique_key(java)
        born_at_ms = int(fields["g"])
        made_at_ms = month_ms(born_at_ms, UTC)[0] + read.since_month_start_ms
        assert 0 <= born_at_ms - made_at_ms < 1000
        keys = UniqueKeys(ip_address(read.host).packed, read.pid, read.class_loader_hash, zone=UTC)
        assert (keys.make(made_at_ms), read.counter) == (java, 0)


def test_a_key_holds_address_process_number_time_and_counter() -> None:
    keys = UniqueKeys(ADDRESS, 0x12345, -1, zone=UTC)
    first, second = (decode_unique_key(keys.make(_ms(2026, 3, 1, 0, 0, 5))) for _ in range(2))
    assert (first.host, first.pid, first.class_loader_hash) == ("10.0.0.7", 0x2345, -1)
    assert (first.since_month_start_ms, first.counter, second.counter) == (5000, 0, 1)
    assert len(UniqueKeys(bytes(16), 1, 1).make(1)) == 56


def test_all_keys_of_a_ms_differ_and_the_counter_goes_round() -> None:
    keys = UniqueKeys(ADDRESS, 1, 1, zone=UTC)
    made = [keys.make(1_800_000_000_000) for _ in range(65_537)]
    assert len(set(made[:65_536])) == 65_536
    assert made[65_536] == made[0]


def test_late_in_a_month_the_time_has_all_bits_as_in_java() -> None:
    key = UniqueKeys(ADDRESS, 1, 1, zone=UTC).make(_ms(2026, 3, 31, 23))
    since_ms = (30 * 24 + 23) * 3_600_000
    assert key[20:28] == f"{since_ms:08X}"
    assert decode_unique_key(key).since_month_start_ms == since_ms - 2**32


def test_the_next_month_begins_anew() -> None:
    keys = UniqueKeys(ADDRESS, 1, 1, zone=UTC)
    keys.make(_ms(2026, 2, 28, 23))
    assert decode_unique_key(keys.make(_ms(2026, 3, 1) + 7)).since_month_start_ms == 7


@pytest.mark.parametrize(("back_ms", "since_ms"), [(1, 0), (999_999, 0), (1_000_000, -1_000_000)])
def test_a_clock_that_is_set_back_over_the_months_start(back_ms: int, since_ms: int) -> None:
    keys = UniqueKeys(ADDRESS, 1, 1, zone=UTC)
    keys.make(_ms(2026, 3, 1))
    assert decode_unique_key(keys.make(_ms(2026, 3, 1) - back_ms)).since_month_start_ms == since_ms


def test_months_begin_where_the_producer_is() -> None:
    zone = timezone(timedelta(hours=8))
    assert month_ms(_ms(2026, 2, 28, 16), zone) == (_ms(2026, 2, 28, 16), _ms(2026, 3, 31, 16))
    assert month_ms(_ms(2026, 2, 28, 16) - 1, zone)[1] == _ms(2026, 2, 28, 16)
    assert month_ms(_ms(2026, 12, 31, 23), UTC) == (_ms(2026, 12, 1), _ms(2027, 1, 1))


def test_a_month_in_which_clocks_are_set_begins_with_the_old_time() -> None:
    # In Berlin the last Sunday of March is 23 hours long.
    start_ms, end_ms = month_ms(_ms(2026, 3, 31, 12), ZoneInfo("Europe/Berlin"))
    assert start_ms == _ms(2026, 2, 28, 23)
    assert end_ms == _ms(2026, 3, 31, 22)


def test_without_a_zone_it_is_the_machines() -> None:
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    start_ms, end_ms = month_ms(now_ms)
    assert start_ms <= now_ms < end_ms
    assert 28 <= round((end_ms - start_ms) / 86_400_000) <= 31
