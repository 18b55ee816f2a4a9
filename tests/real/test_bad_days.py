"""Brokers and name servers that are gone, silent or wrong: one clear sentence and the right exit code, in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .harness.cluster import Cluster
from .harness.process import JavaProcess, free_port
from .harness.rmqctl import Rmqctl


@contextmanager
def paused(java: JavaProcess | None) -> Iterator[None]:
    """Stop a process for a while: its connections are accepted by the system and never answered."""
    assert java is not None
    java.pause()
    try:
        yield
    finally:
        java.resume()


@pytest.fixture(scope="session")
def group(cluster: Cluster) -> str:
    cluster.create_topic("Bad")
    cluster.java.produce("Bad", 16)
    cluster.java.consume("bad", "BadDayGroup", "Bad")
    cluster.java.wait_consumed("bad", 16)
    cluster.java.stop("bad")
    return "BadDayGroup"


def test_a_group_that_does_not_exist(rmqctl: Rmqctl, group: str) -> None:
    result = rmqctl("offset", "show", "BadDayGruop")

    assert (result.exit_code, result.stdout) == (5, "")
    # Groups of other tests may be as close.
    assert result.stderr.startswith("rmqctl: Group BadDayGruop does not exist.\n        Did you mean BadDayGroup")


def test_a_topic_that_does_not_exist(rmqctl: Rmqctl, group: str) -> None:
    result = rmqctl("offset", "show", group, "--topic", "Bda")

    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr == "rmqctl: Topic Bda does not exist.\n        Did you mean Bad?\n"


def test_a_wrong_address(rmqctl: Rmqctl) -> None:
    result = rmqctl("offset", "show", "G", namesrv=f"127.0.0.1:{free_port()}")

    assert result.exit_code == 6
    assert "connection refused" in result.stderr


def test_a_name_that_does_not_resolve(rmqctl: Rmqctl) -> None:
    result = rmqctl("group", "list", namesrv="no-such-host.invalid:9876")

    assert result.exit_code == 6
    assert "does not resolve" in result.stderr


def test_a_broker_given_as_the_name_server(cluster: Cluster, rmqctl: Rmqctl) -> None:
    result = rmqctl("offset", "show", "G", namesrv=cluster.brokers["broker-a"].address)

    assert result.exit_code == 2
    assert "is a broker, not a name server." in result.stderr


def test_a_name_server_that_never_answers(cluster: Cluster, rmqctl: Rmqctl) -> None:
    with paused(cluster.namesrv_java):
        result = rmqctl("offset", "show", "G", "--timeout", "3s")

    assert result.exit_code == 6
    assert "no answer within" in result.stderr
    assert result.seconds < 4


def test_a_second_name_server_answers_for_the_first(cluster: Cluster, rmqctl: Rmqctl, group: str) -> None:
    result = rmqctl("offset", "show", group, namesrv=f"127.0.0.1:{free_port()};{cluster.namesrv}")

    assert result.exit_code == 0
    assert "warning: name server 127.0.0.1:" in result.stderr


@pytest.mark.parametrize("words", [("offset", "show", "BadDayGroup"), ("group", "list"), ("cluster", "list")])
def test_a_broker_that_never_answers(cluster: Cluster, rmqctl: Rmqctl, group: str, words: tuple[str, ...]) -> None:
    with paused(cluster.brokers["broker-b"].java):
        result = rmqctl(*words, "--timeout", "3s", "-o", "json")

    assert result.exit_code == 8
    assert result.seconds < 4
    assert {error["brokerName"] for error in result.document["errors"]} == {"broker-b"}
    assert result.document["items"]


def test_the_rows_of_a_broker_that_never_answers_are_unknown(cluster: Cluster, rmqctl: Rmqctl, group: str) -> None:
    with paused(cluster.brokers["broker-b"].java):
        document = rmqctl("offset", "show", group, "--topic", "Bad", "--timeout", "3s", "-o", "json").document

    by_broker = {
        name: [item for item in document["items"] if item["brokerName"] == name] for name in ("broker-a", "broker-b")
    }
    assert [item["lag"] for item in by_broker["broker-a"]] == [0, 0, 0, 0]
    assert [item["lag"] for item in by_broker["broker-b"]] == [None] * 4
    assert {item["reasons"]["lag"] for item in by_broker["broker-b"]} == {"BROKER_UNREACHABLE"}
    assert document["summary"]["lag"] is None


def test_no_broker_answers(cluster: Cluster, rmqctl: Rmqctl, group: str) -> None:
    with paused(cluster.brokers["broker-a"].java), paused(cluster.brokers["broker-b"].java):
        result = rmqctl("offset", "show", group, "--timeout", "3s")

    assert (result.exit_code, result.stdout) == (6, "")
    assert "no answer within" in result.stderr


def test_a_broker_that_died(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """4.9's name server names it for two more minutes; 5.4's drops it at once, but the members still hold it."""
    cluster.create_topic("Died", queue_count=1)
    cluster.java.consume("died", "DiedGroup", "Died")
    cluster.java.produce("Died", 10)
    cluster.java.wait_consumed("died", 10)
    cluster.java.persist("died")
    broker = cluster.brokers["broker-b"]
    broker.kill()
    try:
        result = rmqctl("offset", "show", "DiedGroup", "--topic", "Died", "-o", "json")
        table = rmqctl("offset", "show", "DiedGroup", "--topic", "Died")
    finally:
        broker.start()
        broker.wait()
        cluster.wait()
        cluster.java.stop("died")

    assert (result.exit_code, table.exit_code) == (8, 8)
    assert [(item["brokerName"], item["consumerOffset"] is None) for item in result.document["items"]] == [
        ("broker-a", False),
        ("broker-b", True),
    ]
    assert "broker-b" in table.stderr
