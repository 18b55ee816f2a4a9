from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqctl.protocol.message_id import (
    ClientId,
    OffsetId,
    UniqueKey,
    decode_client_id,
    decode_offset_id,
    decode_unique_key,
    encode_offset_id,
)
from tests.protocol.golden import EXCHANGES, answer, decode

ADDRESSES = st.ip_addresses(v=4) | st.ip_addresses(v=6)
RECORDED = "FD00000000000000000000000000000246D330946E096813D4EB0000"


def test_the_broker_s_id() -> None:
    assert encode_offset_id(bytes([127, 0, 0, 1]), 20911, 0) == "7F000001000051AF0000000000000000"
    assert decode_offset_id("7F000001000051AF0000000000000000") == OffsetId("127.0.0.1", 20911, 0)
    assert decode_offset_id("7f00000100002a9f00000000000217db") == OffsetId("127.0.0.1", 10911, 137179)


@settings(max_examples=100, deadline=None)
@given(ADDRESSES, st.integers(1, 65535), st.integers(0, 2**63 - 1))
def test_the_broker_s_id_comes_back(address: IPv4Address | IPv6Address, port: int, commit_log_offset: int) -> None:
    text = encode_offset_id(address.packed, port, commit_log_offset)
    assert len(text) == (32 if address.version == 4 else 56)
    assert text == text.upper()
    assert decode_offset_id(text) == OffsetId(str(address), port, commit_log_offset)


def test_the_producer_s_id() -> None:
    # An IPv6 address; 1746130155 ms are the 20 days of November 2026 before it.
    assert decode_unique_key(RECORDED) == UniqueKey("fd00::2", 0x46D3, 0x30946E09, 1746130155, 0)
    assert decode_unique_key("7F000001" + "0001" + "FFFFFFFF" + "00000002" + "FFFF") == UniqueKey(
        "127.0.0.1", 1, -1, 2, 65535
    )


def test_recorded_sends_name_the_producer_s_and_the_broker_s_ids() -> None:
    sends = [exchange for exchange in EXCHANGES if exchange.request_code == 310]
    assert len(sends) == 6
    for exchange in sends:
        request, sent = decode(exchange.request), answer(exchange)
        assert decode_offset_id(sent.ext_fields["msgId"]).port == 10911
        properties = dict(pair.split("\x01") for pair in request.ext_fields["i"].split("\x02") if pair)
        made = decode_unique_key(properties["UNIQ_KEY"])
        assert made.host == "fd00::2"
        # Both are the producer's clock; 1793491200000 is the start of November 2026 in UTC, its zone.
        assert 0 <= int(request.ext_fields["g"]) - 1793491200000 - made.since_month_start_ms < 1000


def test_a_producer_s_id_is_hardly_ever_a_broker_s() -> None:
    with pytest.raises(ValueError, match="it would mean port"):
        decode_offset_id(RECORDED)


@pytest.mark.parametrize(
    "text",
    [
        "7F00000100000000" + "0" * 16,  # port 0
        "7F00000100010000" + "0" * 16,  # port 65536
        "7F000001FFFFFFFF" + "0" * 16,  # port -1
        "7F000001000051AF" + "F" * 16,  # offset -1
    ],
)
def test_an_id_that_means_no_place(text: str) -> None:
    with pytest.raises(ValueError, match="would mean"):
        decode_offset_id(text)
    decode_unique_key(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "7F", "7F000001000051AF000000000000000", "7F000001000051AF00000000000000000"),
        *("G" * 32, "0" * 31 + "g", "0" * 24, "0" * 40, "0" * 55, "0" * 57, "0" * 64, "٣" * 32, "0x" + "0" * 30),
        *("7F 00 00 01 00 00 51 AF 00 00 00 00 00 00 00 00", " " * 32, "00" * 16 + " ", "0" * 31 + "\n"),
    ],
)
def test_a_text_that_is_no_id(text: str) -> None:
    for decode_id in (decode_offset_id, decode_unique_key):
        with pytest.raises(ValueError, match="is not a message id"):
            decode_id(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="0123456789abcdefABCDEF ", min_size=30, max_size=58))
def test_any_text_is_an_id_or_a_value_error(text: str) -> None:
    for decode_id in (decode_offset_id, decode_unique_key):
        try:
            decode_id(text)
        except ValueError:
            continue


def test_an_id_of_a_5x_sdk_is_read() -> None:
    # Version 1, network card, process, seconds since 2021, counter.
    read = decode_client_id("01ABCDEF12345617D9000000100000000A")
    assert read == ClientId("ab:cd:ef:12:34:56", 0x17D9, 1_609_459_216_000, 10)


@pytest.mark.parametrize(
    "text", ["", "01", "01ABCDEF12345617D9000000100000000", "01ABCDEF12345617D9000000100000000AB", "0" * 34, "zz" * 17]
)
def test_what_is_no_id_of_a_5x_sdk_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an id of a 5\.x SDK"):
        decode_client_id(text)
