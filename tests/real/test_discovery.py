"""Name servers found by URL, and servers that write binary headers."""

from __future__ import annotations

import pytest

from .harness.cluster import Cluster
from .harness.discovery import PATH, NameServerPage
from .harness.rmqctl import Rmqctl


def test_a_url_names_the_name_servers(cluster: Cluster, name_server_page: NameServerPage) -> None:
    rmqctl = Rmqctl(name_server_page.url)
    name_server_page.name(f"127.0.0.1:1;{cluster.namesrv}\n")

    assert len(rmqctl.items("cluster", "list")) == 2
    assert name_server_page.asked == [PATH]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"<html><body>Welcome</body></html>", "answered '<html><body>Welcome</body></html>' instead of"),
        (b"", "answered nothing instead of name servers"),
        (b"\xff\x00\x1b[31m", "instead of name servers"),
        (b"x" * 1_000_000, "answered more than 64 KiB"),
    ],
)
def test_a_url_that_answers_nonsense(name_server_page: NameServerPage, answer: bytes, words: str) -> None:
    name_server_page.name_bytes(answer)
    result = Rmqctl(name_server_page.url.replace("://", "://user:p4ssword@") + "?token=t0ken")(
        "cluster", "list", "--debug"
    )

    assert (result.exit_code, result.stdout) == (1, "")
    assert words in result.stderr
    assert "\x1b" not in result.stderr
    assert not any(secret in result.stderr for secret in ("p4ssword", "t0ken"))


def test_a_url_that_fails_or_hangs(name_server_page: NameServerPage) -> None:
    rmqctl = Rmqctl(name_server_page.url)
    name_server_page.fail(503)
    assert "it answered 503" in rmqctl("cluster", "list").stderr
    name_server_page.redirect(PATH)
    assert "it redirects more than three times" in rmqctl("cluster", "list").stderr
    name_server_page.hang()
    hanging = rmqctl("cluster", "list", "--timeout", "2s")
    assert hanging.exit_code == 6
    assert hanging.seconds < 4


def test_servers_that_write_binary_headers_are_read(binary_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, rmqctl = binary_cluster, Rmqctl(binary_cluster.namesrv)
    cluster.create_topic("Binary")
    cluster.java.consume("binary", "BinaryGroup", "Binary")
    cluster.java.produce("Binary", 8)
    cluster.java.wait_consumed("binary", 8)
    try:
        for header in ("JSON", "ROCKETMQ"):
            monkeypatch.setenv("ROCKETMQ_SERIALIZE_TYPE", header)
            (member,) = rmqctl.items("group", "members", "BinaryGroup")
            assert member["queueCount"] is not None
            assert {item["brokerName"] for item in rmqctl.items("offset", "show", "BinaryGroup")} == {"broker-a"}
            assert len(rmqctl.items("message", "find", "Binary")) == 8
            assert rmqctl("offset", "show", "NoSuchGroup").exit_code == 5
    finally:
        cluster.java.stop("binary")
