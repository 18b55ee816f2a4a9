"""`group create`, `update` and `delete`, as a script and as a person use them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode as Q
from tests.admin.cluster import BrokerState, Cluster, Group, Queue, running
from tests.cli.scripted_server import Serve

from .calls import Result, call

Captured = pytest.CaptureFixture[str]
WRITES = {Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Q.DELETE_SUBSCRIPTIONGROUP, Q.UPDATE_CONSUMER_OFFSET}


def _cluster() -> Cluster:
    a, b = BrokerState("broker-a"), BrokerState("broker-b")
    for broker in (a, b):
        broker.topics["orders"] = [Queue(100), Queue(100)]
        broker.configured |= {"payments", "TOOLS_CONSUMER"}
        broker.offsets["payments"] = {"orders": {0: 60}}
    b.group_configs["payments"] = {"retryMaxTimes": 5, "consumeBroadcastEnable": False}
    return Cluster(a, b)


@pytest.fixture
def cluster(serve: Serve) -> Cluster:
    return serve(_cluster())


def _written(cluster: Cluster) -> list[int]:
    return [code for server in cluster.servers.values() for code in server.codes() if code in WRITES]


def _config(cluster: Cluster, group: str, name: str) -> dict[str, Any] | None:
    broker = cluster.brokers[f"broker-{name}"]
    return broker.group_configs.get(group, {}) if group in broker.configured else None


def _receipt_id(result: Result) -> str:
    (line,) = [line for line in result.err.splitlines() if line.startswith("To go back: ")]
    return line.rpartition(" ")[2]


def test_a_plan_shows_just_what_changes_at_each_broker(cluster: Cluster, capsys: Captured) -> None:
    result = call(capsys, "group", "update", "payments", "--retries", "3", "--no-broadcast", "--dry-run", "-o", "plain")
    assert result.out.splitlines() == [
        "BROKER    BEFORE                                        TARGET",
        "broker-a  consumeBroadcastEnable=true retryMaxTimes=16  consumeBroadcastEnable=false retryMaxTimes=3",
        "broker-b  retryMaxTimes=5                               retryMaxTimes=3",
    ]
    assert "not affected by retryMaxTimes" in result.err
    assert (result.code, _written(cluster)) == (0, [])


def test_nothing_is_changed_where_nobody_can_be_asked(cluster: Cluster, capsys: Captured) -> None:
    for words in (("create", "new"), ("update", "payments", "--retries", "3"), ("delete", "payments")):
        result = call(capsys, "group", *words)
        assert result.code == 2
        assert "needs --yes" in result.err
    assert _written(cluster) == []


def test_an_update_leaves_all_else_and_can_be_undone(cluster: Cluster, capsys: Captured) -> None:
    done = call(capsys, "group", "update", "payments", "--set", "retryMaxTimes=3", "--yes")
    assert done.code == 0
    assert "CONFIRMED" in done.out
    config = _config(cluster, "payments", "b")
    assert config is not None
    assert (config["retryMaxTimes"], config["consumeBroadcastEnable"]) == (3, False)
    undone = call(capsys, "offset", "undo", _receipt_id(done), "--yes", "-o", "json")
    assert undone.code == 0
    receipt = json.loads(undone.out)
    assert (receipt["kind"], receipt["operation"]) == ("Receipt", "group update")
    assert [item["after"]["retryMaxTimes"] for item in receipt["items"]] == [16, 5]
    assert [item["result"] for item in receipt["items"]] == ["CONFIRMED", "CONFIRMED"]


def test_a_group_is_made_and_taken_away_again(cluster: Cluster, capsys: Captured) -> None:
    made = call(capsys, "group", "create", "new", "--from", "payments", "--retry-queues", "4", "--orderly", "--yes")
    assert made.code == 0
    config = _config(cluster, "new", "b")
    assert config is not None
    assert (config["retryMaxTimes"], config["retryQueueNums"], config["consumeMessageOrderly"]) == (5, 4, True)
    again = call(capsys, "group", "create", "new", "--from", "payments", "--retry-queues", "4", "--orderly", "--yes")
    assert (again.code, again.out) == (0, "")
    assert "already has the group" in again.err
    refused = call(capsys, "group", "create", "new", "--yes")
    assert refused.code == 1
    assert "broker-a has consumeMessageOrderly=true, retryQueueNums=4" in refused.err
    assert call(capsys, "offset", "undo", _receipt_id(made), "--yes").code == 0
    assert _config(cluster, "new", "a") is _config(cluster, "new", "b") is None


def test_a_group_goes_with_its_offsets_and_comes_back(cluster: Cluster, capsys: Captured) -> None:
    done = call(capsys, "group", "delete", "payments", "--with-offsets", "--reason", "moved", "--yes")
    assert done.code == 0
    assert "Group payments: 4 confirmed." in done.err
    assert not any("payments" in broker.offsets for broker in cluster.brokers.values())
    history = call(capsys, "offset", "history", "payments", "-o", "json")
    (change,) = json.loads(history.out)["items"]
    assert (change["operation"], change["reason"], change["confirmedCount"]) == ("group delete", "moved", 4)
    back = call(capsys, "offset", "undo", _receipt_id(done), "--yes")
    assert back.code == 0
    assert [broker.offsets["payments"] for broker in cluster.brokers.values()] == [{"orders": {0: 60}}] * 2
    config = _config(cluster, "payments", "b")
    assert config is not None
    assert config["retryMaxTimes"] == 5


def test_offsets_stand_below_their_brokers_configuration(cluster: Cluster, capsys: Captured) -> None:
    result = call(capsys, "group", "delete", "payments", "--with-offsets", "--dry-run", "-o", "plain")
    assert [line.split() for line in result.out.splitlines()] == [
        ["BROKER", "WHAT", "Q", "BEFORE", "TARGET"],
        ["broker-a", "configuration", "-", "defaults", "none"],
        ["broker-a", "orders", "0", "60", "none"],
        ["broker-b", "configuration", "-", "consumeBroadcastEnable=false", "retryMaxTimes=5", "none"],
        ["broker-b", "orders", "0", "60", "none"],
    ]
    names = call(capsys, "group", "delete", "payments", "--with-offsets", "--dry-run", "-o", "name").out
    assert names.split() == ["broker-a", "orders@broker-a:0", "broker-b", "orders@broker-b:0"]


def test_documents_of_an_end_are_as_their_schemas_say(cluster: Cluster, capsys: Captured, tmp_path: Path) -> None:
    words = ("group", "delete", "payments", "--with-offsets")
    plan = json.loads(call(capsys, *words, "--dry-run", "-o", "json").out)
    assert [item.get("topic") for item in plan["items"]] == [None, "orders", None, "orders"]
    receipt = json.loads(call(capsys, *words, "--yes", "-o", "json").out)
    assert [item["result"] for item in receipt["items"]] == ["CONFIRMED"] * 4
    assert [item["before"] for item in receipt["items"] if item.get("topic")] == [60, 60]
    path = tmp_path / "receipt.json"
    path.write_text(json.dumps(receipt | {"items": receipt["items"][:-1]}))
    assert call(capsys, "offset", "undo", str(path), "--yes").code == 1
    path.write_text(json.dumps(receipt))
    back = json.loads(call(capsys, "offset", "undo", str(path), "--yes", "-o", "json").out)
    assert [(item["after"], item["route"]) for item in back["items"] if item.get("topic")] == [(60, "BROKER_WRITE")] * 2


def test_members_stand_in_the_way_of_an_end(cluster: Cluster, capsys: Captured) -> None:
    cluster.brokers["broker-a"].groups["payments"] = Group({"pay@1": running()}, ("orders",))
    result = call(capsys, "group", "delete", "payments", "--yes", "-o", "json")
    assert (result.code, result.error["name"]) == (1, "REFUSED")
    assert "pay@1" in result.error["message"]
    assert _written(cluster) == []


def test_a_saved_plan_is_shown_and_applied_once(cluster: Cluster, capsys: Captured, tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    saved = call(capsys, "group", "update", "payments", "--no-consume", "--plan", path, "-o", "json")
    assert saved.code == 0
    plan = json.loads(saved.out)
    assert [item["code"] for item in plan["consequences"]] == ["CONSUME_OFF", "BROKERS_DIFFER"]
    assert [item["target"]["consumeEnable"] for item in plan["items"]] == [False, False]
    assert "consumeEnable=false" in call(capsys, "plan", "show", path).out
    assert _written(cluster) == []
    assert call(capsys, "apply", path, "--yes").code == 0
    stale = call(capsys, "apply", path, "--yes", "-o", "json")
    assert (stale.code, stale.error["name"]) == (7, "STALE")
    assert "broker-a had consumeEnable=true, and now has consumeEnable=false" in stale.error["message"]


def test_contexts_can_be_readonly_or_protected(
    cluster: Cluster, capsys: Captured, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = os.environ["NAMESRV_ADDR"]
    monkeypatch.delenv("NAMESRV_ADDR")
    config_file.write_text(
        f'current-context = "prod"\n[contexts.prod]\nnamesrv = "{address}"\nreadonly = true\n'
        f'[contexts.careful]\nnamesrv = "{address}"\nprotected = true\n'
    )
    config_file.chmod(0o600)
    result = call(capsys, "group", "update", "payments", "--retries", "3", "--yes")
    assert result.code == 1
    assert "readonly" in result.err
    assert call(capsys, "group", "update", "payments", "--retries", "3", "--dry-run").code == 0
    careful = ("--context", "careful", "group", "update", "payments", "--retries", "3")
    assert call(capsys, *careful, "--yes").code == 2
    assert call(capsys, *careful, "--confirm", "payment").code == 3
    assert _written(cluster) == []
    assert call(capsys, *careful, "--confirm", "payments").code == 0
    assert _written(cluster) == [Q.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP] * 2


def test_a_broker_that_does_not_answer_leaves_the_rest_done(serve: Serve, capsys: Captured) -> None:
    cluster = _cluster()
    serve(cluster, down=["broker-b"])
    words = ("group", "update", "payments", "--retries", "3", "--yes", "-o", "json")
    refused = call(capsys, *words)
    assert (refused.code, refused.error["name"]) == (1, "REFUSED")
    assert "broker-b" in refused.error["message"]
    result = call(capsys, *words, "--partial")
    assert result.code == 8
    receipt = json.loads(result.out)
    assert [(item["brokerName"], item["result"]) for item in receipt["items"]] == [
        ("broker-a", "CONFIRMED"),
        ("broker-b", "NOT_ATTEMPTED"),
    ]
    assert [error["brokerName"] for error in receipt["errors"]] == ["broker-b"]
    refused = call(capsys, "group", "delete", "payments", "--yes")
    assert refused.code == 1
    assert "--partial" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ("create", "a.b"),
        ("create", "TOOLS_CONSUMER"),
        ("create", "new", "--retries", "-1"),
        ("update", "payments"),
        ("update", "payments", "--set", "retryMaxTimes"),
        ("update", "payments", "--set", "retries=3"),
        ("update", "payments", "--retries", "3", "--set", "retryMaxTimes=3"),
        ("update", "payments", "--retries", "3", "--columns", "lag"),
    ],
    ids=" ".join,
)
def test_mistakes_are_told_before_anybody_is_asked(words: tuple[str, ...], cluster: Cluster, capsys: Captured) -> None:
    result = call(capsys, "group", *words, "--yes")
    assert result.code == 2
    assert cluster.name_server.asked == []


def test_an_attribute_is_taken_away_by_its_sign(cluster: Cluster, capsys: Captured) -> None:
    for sign in (("--set", "+priority.factor=9"), ("--set", "-priority.factor")):
        assert call(capsys, "group", "update", "payments", *sign, "--yes").code == 0
    config = _config(cluster, "payments", "a")
    assert config is not None
    assert config["attributes"] == {}


def test_names_are_those_of_the_namespace(cluster: Cluster, capsys: Captured) -> None:
    assert call(capsys, "--namespace", "NS", "group", "create", "new", "--yes").code == 0
    assert _config(cluster, "NS%new", "a") is not None
