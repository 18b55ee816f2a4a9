"""--map-address: suggested where a broker's own address leads nowhere, refused where it names nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.admin.cluster import BrokerState, Cluster, Queue
from tests.cli.scripted_server import Serve, served

from .calls import call, closed_address

Captured = pytest.CaptureFixture[str]

READS = (
    "cluster list",
    "group list",
    "topic list",
    "offset show G",
    "group describe G",
    "topic status T",
    "diagnose G --for 0s",
)
# These ask no name server for the cluster, but for a route.
BY_ROUTE = ("topic route T", "message find T")


def _cluster(*names: str) -> Cluster:
    brokers = [BrokerState(name, topics={"T": [Queue(10)]}) for name in names]
    for broker in brokers:
        broker.configured = {"G"}
        broker.offsets = {"G": {"T": {0: 4}}}
    return Cluster(*brokers)


@pytest.mark.parametrize("words", [*READS, "message find T"])
def test_an_error_suggests_a_map_for_a_broker_that_is_not_reached(words: str, capsys: Captured) -> None:
    cluster = _cluster("broker-a")
    cluster.addresses["broker-a"] = closed_address()
    with served(cluster) as address:
        result = call(capsys, *words.split(), "-n", address)
        as_json = call(capsys, *words.split(), "-n", address, "-o", "json")
    wanted = f"--map-address {cluster.addresses['broker-a']}="
    assert (result.code, wanted in result.err.splitlines()[1]) == (6, True), result.err
    assert wanted in as_json.error["hint"]


@pytest.mark.parametrize("words", READS)
@pytest.mark.parametrize("is_down", [False, True], ids=["of another network", "of the same network"])
def test_a_partial_result_suggests_it_once_and_only_for_another_network(
    words: str, capsys: Captured, *, is_down: bool
) -> None:
    cluster = _cluster("broker-a", "broker-b")
    cluster.addresses["broker-b"] = closed_address() if is_down else "255.255.255.255:10911"
    with served(cluster) as address:
        result = call(capsys, *words.split(), "-n", address)
    assert result.code == 8
    assert cluster.addresses["broker-b"] in result.err
    assert result.err.count("--map-address") == (0 if is_down else 1), result.err


@pytest.mark.parametrize("is_down", [False, True], ids=["of another network", "of the same network"])
def test_doctor_has_it_in_the_brokers_row(capsys: Captured, *, is_down: bool) -> None:
    cluster = _cluster("broker-a", "broker-b")
    cluster.addresses["broker-b"] = closed_address() if is_down else "255.255.255.255:10911"
    with served(cluster) as address:
        result = call(capsys, "doctor", "-n", address, "-o", "json")
    (item,) = [item for item in json.loads(result.out)["items"] if item["subject"].startswith("broker-b/0")]
    assert (item["status"], "--map-address" in (item["hint"] or "")) == ("FAIL", not is_down)


def test_a_context_test_suggests_it_too(capsys: Captured, config_file: Path) -> None:
    cluster = _cluster("broker-a")
    cluster.addresses["broker-a"] = closed_address()
    with served(cluster) as address:
        config_file.write_text(f'[contexts.c]\nnamesrv = "{address}"\n')
        assert "--map-address" in call(capsys, "context", "test", "c").err


@pytest.mark.parametrize("words", [*READS, *BY_ROUTE, "doctor"])
@pytest.mark.parametrize("key", ["broker-z", "broker-a/1", "10.9.9.9:10911"])
def test_a_map_that_names_nobody_is_refused_by_every_command(words: str, key: str, capsys: Captured) -> None:
    with served(_cluster("broker-a", "broker-b")) as address:
        result = call(capsys, *words.split(), "-n", address, "--map-address", f"{key}=127.0.0.1:1")
    sentence, hint = result.err.splitlines()
    assert (result.code, result.out) == (2, "")
    assert sentence == f"rmqctl: --map-address names {key}, which no broker registered."
    assert "broker-a (127.0.0.1:" in hint
    assert "broker-b (127.0.0.1:" in hint


def test_a_change_is_refused_before_anything_is_written(capsys: Captured) -> None:
    cluster = _cluster("broker-a")
    with served(cluster) as address:
        reset = ("offset", "reset", "G", "--topic", "T", "--to-offset", "2", "--yes", "-n", address)
        assert call(capsys, *reset, "--map-address", "broker-z=127.0.0.1:1").code == 2
    assert cluster.brokers["broker-a"].offsets["G"]["T"] == {0: 4}


@pytest.mark.parametrize("words", [*READS, "topic route T"])
def test_a_map_may_name_a_name_server(words: str, capsys: Captured) -> None:
    with served(_cluster("broker-a")) as address:
        result = call(capsys, *words.split(), "-n", "ns.internal:9876", "--map-address", f"ns.internal:9876={address}")
    assert result.code == 0, result.err


def test_a_map_may_name_a_proxy(capsys: Captured) -> None:
    proxy = closed_address()
    with served(_cluster("broker-a")) as address:
        diagnose = ("diagnose", "G", "--for", "0s", "-n", address)
        words = (*diagnose, "--proxy", proxy, "--map-address", f"{proxy}={closed_address()}")
        assert call(capsys, *words).code != 2


def test_a_map_may_name_a_broker_that_is_away(capsys: Captured, serve: Serve) -> None:
    cluster = _cluster("broker-a", "broker-b")
    serve(cluster)
    assert call(capsys, "cluster", "list").code == 0
    del cluster.brokers["broker-b"]
    for key in ("broker-b", cluster.addresses["broker-b"]):
        assert call(capsys, "cluster", "list", "--map-address", f"{key}=127.0.0.1:1").code == 8


def test_what_a_context_maps_for_nobody_makes_the_answer_partial(capsys: Captured, config_file: Path) -> None:
    """Else nothing could be asked while a broker that it names is away."""
    with served(_cluster("broker-a")) as address:
        maps = '[contexts.c.map-address]\nbroker-z = "127.0.0.1:1"\n'
        config_file.write_text(f'[contexts.c]\nnamesrv = "{address}"\n{maps}')
        for words in ("cluster list", "topic route T", "doctor"):
            result = call(capsys, *words.split(), "--context", "c", "-q")
            assert (result.code, "broker-z" in result.err) == (8, True), (words, result.err)
            assert result.out


def test_a_broker_that_only_a_silent_name_server_may_know_is_not_refused(capsys: Captured) -> None:
    with served(_cluster("broker-a")) as address:
        words = ("cluster", "list", "-n", f"{address};{closed_address()}", "--map-address", "broker-z=127.0.0.1:1")
        result = call(capsys, *words)
    assert (result.code, "broker-z" in result.err) == (8, True)
