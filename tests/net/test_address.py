from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqctl.errors import UsageError
from rmqctl.net.address import format_address, parse_address, parse_name_servers


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.5:9876", "10.0.0.5", 9876),
        (" mq.example.org:1 ", "mq.example.org", 1),
        ("h:65535", "h", 65535),
        ("[::1]:9876", "::1", 9876),
        ("fe80::1%eth0:9876", "fe80::1%eth0", 9876),
        ("::1:9876", "::1", 9876),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "host", "host:", ":9876", "[]:9876", "host:0", "host:65536", "host:-1", "host:+1", "host:1e3"),
        *("host:98 76", "host:\u0661\u0662", "host:\u00b2", "host:1_0", "host:0x10", "http://host:80/path"),
    ],
)
def test_anything_else_is_a_usage_error_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert repr(text) in caught.value.sentence
    assert "host:port" in (caught.value.hint or "")


def test_a_port_of_thousands_of_digits_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        parse_address("host:" + "9" * 5_000)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_a_usage_error(text: str) -> None:
    try:
        host, port = parse_address(text)
    except UsageError:
        return
    assert host
    assert 0 < port < 65536


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", ("a:1",)),
        ("a:1;b:2", ("a:1", "b:2")),
        ("a:1,b:2", ("a:1", "b:2")),
        (" a:1 ; b:2 ;; ", ("a:1", "b:2")),
    ],
)
def test_name_servers_are_split_at_semicolons_and_commas(text: str, addresses: tuple[str, ...]) -> None:
    assert parse_name_servers(text) == addresses


@pytest.mark.parametrize("text", ["", " ", ";", ",;,"])
def test_an_empty_list_of_name_servers_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="No name server"):
        parse_name_servers(text)


def test_one_bad_name_server_fails_the_whole_list() -> None:
    with pytest.raises(UsageError, match="Invalid address 'non sense'"):
        parse_name_servers("a:1;non sense")


def test_a_name_server_without_a_port_has_rocketmqs_own() -> None:
    assert parse_name_servers("10.0.0.5,mq.example.org;a:1") == ("10.0.0.5:9876", "mq.example.org:9876", "a:1")


@pytest.mark.parametrize("address", ["10.0.0.5:9876", "mq.example.org:1", "[::1]:9876"])
def test_an_address_is_written_as_it_was_read(address: str) -> None:
    assert format_address(*parse_address(address)) == address
