"""A cluster that is only partly there is never shown as whole, nor changed as if it were.

Two name servers, of which one knows broker-a alone; then broker-b is killed, which name servers forget at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.jars import VERSIONS
from .harness.name_server import NameServer
from .harness.process import free_port
from .harness.rmqctl import Result, Rmqctl

_QUEUES = [(name, number) for name in ("broker-a", "broker-b") for number in range(4)]


class Scene:
    """The cluster, its second name server, and rmqctl with a memory of its own, which all tests of a release share."""

    def __init__(self, cluster: Cluster, second: NameServer, folder: Path) -> None:
        self.cluster, self.second = cluster, second
        self.rmqctl = Rmqctl(cluster.namesrv, state=str(folder / "state"))
        self.fresh = Rmqctl(cluster.namesrv, state=str(folder / "fresh"))
        self.half_first = f"{second.address};{cluster.namesrv}"


@pytest.fixture(scope="module", params=VERSIONS)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp(f"missing-{request.param}")
    second = NameServer(request.param, folder / "second").start()
    cluster = Cluster(
        request.param, folder / "home", broker_count=2, more_name_servers={"broker-a": second.address}
    )  # fmt: skip
    try:
        second.wait()
        cluster.wait()
        for topic, brokers in (("Goff", ("broker-a", "broker-b")), ("Half", ("broker-b",))):
            cluster.create_topic(topic, queue_count=4, brokers=brokers)
        cluster.java.produce("Goff", 80)
        cluster.java.consume("off", "goff", "Goff")
        cluster.java.wait_consumed("off", 80)
        cluster.java.stop("off")
        cluster.java.produce("Goff", 16)
        scene = Scene(cluster, second, folder)
        wait_until(lambda: _listed(cluster.namesrv) == ["broker-a", "broker-b"])
        wait_until(lambda: _listed(second.address) == ["broker-a"])
        yield scene
    finally:
        cluster.stop()
        second.kill()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("RMQCTL_CONFIG", str(tmp_path / "config.toml"))


def _listed(name_server: str) -> list[str]:
    return _names(Rmqctl(name_server)("cluster", "list", "-o", "json"))


def _names(result: Result) -> list[str]:
    return [item["brokerName"] for item in json.loads(result.stdout)["items"]]


def _queues(result: Result) -> list[tuple[str, int]]:
    """Return the queues of Goff; 4.9's members store offsets of their retry topic as well."""
    return [(item["brokerName"], item["queueId"]) for item in result.document["items"] if item["topic"] == "Goff"]


def _errors(result: Result) -> set[tuple[str | None, str]]:
    return {(error["brokerName"], error["name"]) for error in result.document["errors"]}


_DIFFER = "NAME_SERVERS_DIFFER"


def test_the_union_of_name_servers_is_shown_and_who_leaves_a_broker_out_is_named(scene: Scene) -> None:
    """reads 1: only the first name server that answered was believed."""
    ask = scene.rmqctl
    for words in (("offset", "show", "goff"), ("offset", "export", "goff")):
        result = ask(*words, "-o", "json", namesrv=scene.half_first)
        assert (result.exit_code, _queues(result)) == (8, _QUEUES), words
        assert (None, _DIFFER) in _errors(result)
    shown = ask("offset", "show", "goff", namesrv=scene.half_first)
    assert f"name server {scene.second.address}: It does not list broker-b" in shown.stderr
    clusters = ask("cluster", "list", "-o", "json", namesrv=scene.half_first)
    assert (clusters.exit_code, _names(clusters)) == (8, ["broker-a", "broker-b"])
    groups = ask("group", "list", "goff", "-o", "json", namesrv=scene.half_first)
    assert (groups.exit_code, groups.document["items"][0]["lag"]) == (8, 16)
    status = ask("topic", "status", "Goff", "-o", "json", namesrv=scene.half_first)
    assert (status.exit_code, len(status.document["items"])) == (8, 8)
    for words, code in (
        (("topic", "list", "Half"), 8), (("message", "find", "Half", "--since", "1h"), 8),
        (("topic", "status", "Half"), 8),
        (("broker", "show", "broker-b"), 8), (("whatif", "readonly", "--broker", "broker-b"), 8),
    ):  # fmt: skip
        result = ask(*words, namesrv=scene.half_first)
        assert (result.exit_code, "does not exist" in result.stderr) == (code, False), result.stderr
    whole = ask("offset", "show", "goff", "-o", "json")
    assert (whole.exit_code, _queues(whole), _errors(whole)) == (0, _QUEUES, set())


def test_an_empty_name_server_is_no_end(scene: Scene, tmp_path: Path) -> None:
    """reads 1: while one was still empty, every command failed with exit 5."""
    empty = NameServer(scene.cluster.version, tmp_path).start().wait()
    try:
        result = scene.fresh("offset", "show", "goff", "-o", "json", namesrv=f"{empty.address};{scene.cluster.namesrv}")
        assert (result.exit_code, _queues(result)) == (8, _QUEUES)
        message = next(error["message"] for error in result.document["errors"])
        assert message == "It does not list broker-a, broker-b, which other name servers do."
        remembering = scene.fresh("offset", "show", "goff", namesrv=empty.address)
        assert (remembering.exit_code, "Registered before until" in remembering.stderr) == (6, True)
        alone = Rmqctl(empty.address)("offset", "show", "goff")
        assert alone.exit_code == 6
        assert f"No broker has registered with name server {empty.address} (yet)." in alone.stderr
    finally:
        empty.kill()


def test_a_silent_name_server_is_named_and_the_others_answer(scene: Scene) -> None:
    both = f"127.0.0.1:{free_port()};{scene.cluster.namesrv}"
    result = scene.rmqctl("offset", "show", "goff", "-q", namesrv=both)
    assert result.exit_code == 0, result.stderr
    assert f"warning: name server {both.split(';', maxsplit=1)[0]} reported nothing: " in result.stderr
    unknown = scene.rmqctl("topic", "status", "Nowhere", namesrv=both)
    assert unknown.exit_code in (5, 6)
    found = scene.rmqctl("message", "find", "Nowhere", "--since", "1h", namesrv=both)
    assert found.exit_code == 6
    assert "Topic Nowhere was not found" in found.stderr


@pytest.fixture(scope="module")
def killed(scene: Scene) -> Scene:
    """Kill broker-b after everything was seen once, with a change of both brokers in the journal."""
    cluster = scene.cluster
    cluster.java.consume("m1", "gon", "Goff", instance="m1")
    cluster.java.consume("m2", "gon", "Goff", instance="m2")
    wait_until(lambda: all(len(cluster.java.queues(name, "Goff")) == 4 for name in ("m1", "m2")), 40)
    for words in (("topic", "list"), ("group", "list"), ("offset", "show", "gon"), ("offset", "show", "goff")):
        result = scene.rmqctl(*words)
        assert result.exit_code == 0, result.stderr
    cluster.brokers["broker-b"].kill()
    wait_until(lambda: _names(Rmqctl(cluster.namesrv)("cluster", "list", "-o", "json")) == ["broker-a"])
    return scene


def test_without_a_memory_members_tell_of_the_missing_broker(killed: Scene) -> None:
    """reads 2: `group list` said 0 and exit 0 while `offset show` knew better; members know for some 20 s."""
    shown = killed.fresh("group", "list", "gon", "-o", "json", namesrv=killed.cluster.namesrv)
    # This memory knows the cluster by the tests before: its own one has never seen it.
    new = Rmqctl(killed.cluster.namesrv, state=str(Path(killed.fresh.state).with_name("new")))
    groups, offsets = new("group", "list", "gon", "-o", "json"), new("offset", "show", "gon", "-o", "json")
    for result in (shown, groups, offsets):
        assert result.exit_code == 8, result.stderr
    assert (groups.document["items"][0]["lag"], groups.document["items"][0]["reasons"]["lag"]) == (
        None,
        "BROKER_NOT_REGISTERED",
    )
    assert ("broker-b", "NOT_REGISTERED") in _errors(groups)
    assert {name for name, _ in _queues(offsets)} == {"broker-a", "broker-b"}


def test_every_command_names_the_broker_that_was_there(killed: Scene) -> None:
    """reads 2, newcomer L2: after kill -9 of a broker everything looked healthy."""
    ask = killed.rmqctl
    offsets = ask("offset", "show", "goff", "-o", "json")
    assert (offsets.exit_code, _queues(offsets)) == (8, _QUEUES)
    unknown = [item for item in offsets.document["items"] if item["brokerName"] == "broker-b"]
    assert {item["reasons"]["lag"] for item in unknown} == {"BROKER_NOT_REGISTERED"}
    summary = offsets.document["summary"]
    assert summary["lag"] is None
    assert 0 < summary["lagAtLeast"] < 16
    assert _errors(offsets) == {("broker-b", "NOT_REGISTERED")}
    shown = ask("offset", "show", "goff")
    assert re.search(
        r"broker-b: offsets of its [45] queues: broker-b: not registered; rmqctl last saw it at ", shown.stderr
    )
    groups = ask("group", "list", "goff", "gon", "-o", "json")
    assert groups.exit_code == 8
    assert {item["group"]: item["lag"] for item in groups.document["items"]} == {"goff": None, "gon": None}
    clusters = ask("cluster", "list", "-o", "json")
    assert (clusters.exit_code, _names(clusters)) == (8, ["broker-a", "broker-b"])
    assert clusters.document["items"][1]["error"] == "NOT_REGISTERED"
    status = ask("topic", "status", "Goff", "-o", "json")
    assert (status.exit_code, len(status.document["items"])) == (8, 8)
    for words in (("topic", "list", "Half"), ("topic", "route", "Goff"), ("offset", "export", "goff"),
                  ("group", "describe", "goff"), ("message", "find", "Goff", "--since", "1h"),
                  ("whatif", "allocate", "gon"), ("watch", "--rounds", "1"), ("top", "--rounds", "1")):  # fmt: skip
        result = ask(*words)
        assert result.exit_code == 8, (words, result.stderr)
        assert "broker-b" in result.stderr, words
    for words in (("message", "find", "Half", "--since", "1h"), ("broker", "show", "broker-b")):
        result = ask(*words)
        assert result.exit_code == 6, (words, result.stderr)
        assert "not registered; rmqctl last saw it at" in result.stderr
    doctor = ask("doctor", "-o", "json")
    found = [item for item in doctor.document["items"] if item["check"] == "brokers"]
    assert [(item["subject"], item["status"]) for item in found] == [("broker-b", "FAIL")]


def test_a_change_is_refused_and_partial_says_what_it_left_out(killed: Scene) -> None:
    """changes 2: half of the group was changed, "64 confirmed", exit 0."""
    ask, words = killed.rmqctl, ("offset", "reset", "goff", "--topic", "Goff", "--to-offset", "3")
    refused = ask(*words, "--yes")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "Missing: 4 queues at broker-b (broker-b: not registered; rmqctl last saw it at " in refused.stderr
    for other in (("offset", "skip", "goff", "--yes"), ("group", "update", "goff", "--retries", "3", "--yes")):
        assert ask(*other).exit_code == 1, other
    dry = ask(*words, "--dry-run", "-o", "json")
    assert dry.exit_code == 8
    assert [item["route"] for item in dry.document["items"]].count("UNSEEN") == 4
    counted = ask(*words, "--partial", "--expect-queues", "8", "--yes")
    assert (counted.exit_code, "4 queues, but --expect-queues is 8" in counted.stderr) == (1, True)
    partly = ask(*words, "--partial", "--expect-queues", "4", "--yes", "-o", "json")
    assert partly.exit_code == 8, partly.stderr
    results = [(item["brokerName"], item["result"]) for item in partly.document["items"]]
    assert results == [("broker-a", "CONFIRMED")] * 4 + [("broker-b", "NOT_ATTEMPTED")] * 4
    (change,) = ask("offset", "history", "-o", "json").document["items"]
    assert (change["confirmedCount"], change["notAttemptedCount"]) == (4, 4)


def test_an_undo_of_what_is_not_there_is_not_attempted(killed: Scene, tmp_path: Path) -> None:
    """changes 3: undo knew that half was missing, and exited 0."""
    ask = killed.rmqctl
    receipt: dict[str, Any] = _receipt(killed)
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps(receipt))
    assert ask("offset", "undo", str(path), "--yes").exit_code == 1
    undone = ask("offset", "undo", str(path), "--partial", "--yes", "-o", "json")
    assert undone.exit_code == 8, undone.stderr
    results = {(item["brokerName"], item["result"]) for item in undone.document["items"]}
    assert results == {("broker-a", "CONFIRMED"), ("broker-b", "NOT_ATTEMPTED")}


def _receipt(scene: Scene) -> dict[str, Any]:
    """Return the receipt of a change of all eight queues to offset 3, as it was before the broker died."""
    partly = scene.rmqctl(
        "offset", "reset", "goff", "--topic", "Goff", "--to-offset", "2", "--partial", "--yes", "-o", "json"
    )
    document: dict[str, Any] = partly.document
    addresses = scene.cluster.addresses
    for item in document["items"]:
        if item["brokerName"] == "broker-b":
            item |= {"before": 10, "target": 2, "after": 2, "isAfterKnown": True, "route": "BROKER_WRITE",
                     "result": "CONFIRMED", "note": ""}  # fmt: skip
    document["brokers"] = dict(addresses)
    document["errors"] = []
    return document


def test_forgetting_a_broker_ends_it_and_a_context_can_name_it(killed: Scene, tmp_path: Path) -> None:
    ask = killed.rmqctl
    forgotten = ask("doctor", "--forget-broker", "broker-b", "-o", "json")
    assert "broker-b" not in {item["subject"] for item in forgotten.document["items"]}
    assert ask("doctor", "--forget-broker", "broker-b").exit_code == 5
    whole = ask("offset", "show", "goff", "-o", "json")
    assert (whole.exit_code, _queues(whole)) == (0, _QUEUES[:4])
    (tmp_path / "config.toml").write_text(
        f'[contexts.prod]\nnamesrv = "{killed.cluster.namesrv}"\nbrokers = "broker-a,broker-b"\n'
    )
    named = ask("offset", "show", "goff", "--context", "prod")
    assert named.exit_code == 8
    assert "the context names it" in named.stderr


def test_a_broker_that_comes_back_is_there_again(killed: Scene) -> None:
    broker = killed.cluster.brokers["broker-b"]
    broker.start()
    broker.wait()

    def is_back() -> bool:
        result = killed.rmqctl("offset", "show", "goff", "-o", "json")
        return (result.exit_code, _queues(result)) == (0, _QUEUES)

    wait_until(is_back, 40)
