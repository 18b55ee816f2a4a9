"""Resets while something breaks: brokers die in the middle, name servers are gone, members take no notice."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rmqctl.changes.apply import apply_plan
from rmqctl.changes.documents.encode import plan_document
from rmqctl.changes.journal.journal import Journal
from rmqctl.changes.offsets.plan import plan_offsets
from rmqctl.changes.offsets.rules.reset import TargetKind, TargetSpec
from rmqctl.changes.offsets.targets import ResetRequest
from rmqctl.client.core import Client
from rmqctl.model.group import GroupState
from rmqctl.model.plan import Operation
from rmqctl.model.receipt import ReceiptReport, Result, Who

from .harness.cluster import Cluster
from .harness.conditions import wait_until
from .harness.diagnose_case import another_jvm
from .harness.jars import VERSIONS
from .harness.rmqctl import Rmqctl

_TOPIC, _GROUP = "Breaking", "BreakingGroup"


@pytest.fixture(scope="module", params=VERSIONS)
def breakable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster of two brokers that a test may break, with a group that is through with a topic."""
    running = Cluster(request.param, tmp_path_factory.mktemp(f"breakable-{request.param}") / "home", broker_count=2)
    try:
        running.wait()
        running.create_topic(_TOPIC, queue_count=2)
        running.java.produce(_TOPIC, 40)
        running.java.consume("breaking", _GROUP, _TOPIC)
        running.java.wait_consumed("breaking", 40)
        running.java.stop("breaking")
        yield running
    finally:
        running.stop()


class _Watched(Journal):
    """A journal that breaks something right before broker-b's queues are written."""

    def __init__(self, path: Path, cluster: Cluster) -> None:
        super().__init__(path)
        self._cluster = cluster

    def attempting(self, receipt_id: str, befores: Mapping[int, Any], *, now_ms: int | None = None) -> None:
        super().attempting(receipt_id, befores, now_ms=now_ms)
        receipt = self.receipt(receipt_id)
        assert receipt is not None
        if any(receipt.items[index].mq.broker_name == "broker-b" for index in befores):
            self._cluster.brokers["broker-b"].kill()


def test_a_broker_that_dies_in_the_middle_is_told_of_and_the_rest_is_done_later(
    breakable: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    rmqctl = Rmqctl(breakable.namesrv)

    async def scenario() -> ReceiptReport:
        async with Client([breakable.namesrv], timeout_s=6) as client:
            wish = ResetRequest(Operation.OFFSET_RESET, TargetSpec(TargetKind.EARLIEST), (_TOPIC,))
            plan = (await plan_offsets(client, _GROUP, wish)).plan
            assert (plan.state, len(plan.items)) == (GroupState.EMPTY, 4)
            document = plan_document(plan)
            who = Who("tester", os.uname().nodename, os.getpid(), None)
            with _Watched(tmp_path / "journal.db", breakable) as journal:
                return await apply_plan(
                    client, plan, json.dumps(document), document["sha256"], journal, who, strict=False, wait_s=0,
                    report=lambda _: None,
                )  # fmt: skip

    applied = asyncio.run(scenario())
    by_broker: dict[str, set[Result]] = {}
    for item in applied.receipt.items:
        by_broker.setdefault(item.mq.broker_name, set()).add(item.result)
    assert by_broker == {"broker-a": {Result.CONFIRMED}, "broker-b": {Result.UNKNOWN}}
    assert not any(item.is_after_known for item in applied.receipt.items if item.mq.broker_name == "broker-b")
    assert applied.exit_code == 9
    with Journal(tmp_path / "journal.db") as journal:
        assert journal.receipt(applied.receipt.id) == applied.receipt
    words = ("offset", "reset", _GROUP, "--topic", _TOPIC, "--to-earliest")
    breakable.brokers["broker-b"].start()
    breakable.brokers["broker-b"].wait()
    breakable.wait_for_route(_TOPIC, 2)
    again = rmqctl(*words, "--yes", "-o", "json", "--timeout", "40s")
    assert again.exit_code == 0, again.stderr + again.stdout
    items = again.document["items"]
    assert {(item["after"], item["result"]) for item in items} == {(0, "CONFIRMED")}


def test_nothing_is_changed_without_a_name_server(
    breakable: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    rmqctl = Rmqctl(breakable.namesrv)
    plan = str(tmp_path / "plan.json")
    words = ("offset", "reset", _GROUP, "--topic", _TOPIC, "--to-latest", "--plan", plan)
    assert rmqctl(*words).exit_code == 0
    breakable.namesrv_java.pause()
    try:
        result = rmqctl("apply", plan, "--yes", "-o", "json", "--timeout", "3s")
    finally:
        breakable.namesrv_java.resume()
    assert (result.exit_code, result.stdout) == (6, "")
    assert rmqctl("offset", "history", "-o", "json").document["items"] == []
    done = rmqctl("apply", plan, "--yes", "-o", "json")
    assert (done.exit_code, {item["result"] for item in done.document["items"]}) == (0, {"CONFIRMED"})


@pytest.mark.timeout(300)
def test_a_member_that_takes_no_notice_is_not_called_reset(
    breakable: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is stopped: it never pulls and never answers, and can commit its old offset when it continues."""
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    rmqctl, topic, group = Rmqctl(breakable.namesrv), "Frozen", "FrozenGroup"
    words = ("offset", "reset", group, "--topic", topic, "--to-earliest", "--yes", "-o", "json")
    breakable.create_topic(topic, queue_count=2, brokers=("broker-a",))
    with another_jvm(breakable) as other:
        # A client that heartbeats every second is now and then lost from sight while it stands still for the push.
        breakable.java.consume("awake", group, topic, instance="awake", heartbeat=30_000)
        frozen_id = other.consume("frozen", group, topic, instance="frozen")
        wait_until(lambda: len(breakable.java.queues("awake", topic)) == len(other.queues("frozen", topic)) == 1, 60)
        (held,) = other.queues("frozen", topic)
        breakable.java.produce(topic, 40)
        wait_until(lambda: int(breakable.java.call("consumed", id="awake")) == 20, 60)
        wait_until(lambda: int(other.call("consumed", id="frozen")) == 20, 60)
        wait_until(lambda: {row["lag"] for row in rmqctl.items("offset", "show", group, "--topic", topic)} == {0}, 60)
        other.java.pause()
        first = rmqctl(*words, "--wait-stable", "36s")
        again = rmqctl(*words, "--queue", held)
        is_listed = frozen_id in rmqctl("group", "members", group, "-o", "name").stdout
        other.java.kill()
    assert first.exit_code == 9, first.stderr + first.stdout
    assert first.document["route"] == ("CLIENT_PUSH" if breakable.version == "4.9.7" else "SERVER_SIDE")
    # After 120 s its broker removes it, and the other member takes over the queue.
    if is_listed:
        assert again.exit_code == 9, again.stderr + again.stdout
        (item,) = again.document["items"]
        assert frozen_id in item["note"]
    results = {f"{item['brokerName']}:{item['queueId']}": item for item in first.document["items"]}
    assert (results[held]["result"], frozen_id in results[held]["note"]) == ("UNKNOWN", True), results
    assert {item["result"] for queue, item in results.items() if queue != held} == {"CONFIRMED"}, results
    # The other member takes over the queue where it was reset to.
    breakable.java.wait_consumed("awake", 20 + 20 + 20)
    breakable.java.stop("awake")


@pytest.mark.timeout(300)
def test_a_member_that_is_past_the_stored_offset_is_not_called_there(
    breakable: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits 5 s later, or it is paused and has not followed a reset: the target is stored, and it is elsewhere."""
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    rmqctl, java, topic, group = Rmqctl(breakable.namesrv), breakable.java, "Ahead", "AheadGroup"
    words = ("offset", "reset", group, "--topic", topic, "--yes", "-o", "json", "--to-offset")
    breakable.create_topic(topic, queue_count=1, brokers=("broker-a",))
    java.consume("ahead", group, topic, heartbeat=30_000)
    java.produce(topic, 20)
    java.wait_consumed("ahead", 20)
    wait_until(lambda: {row["lag"] for row in rmqctl.items("offset", "show", group, "--topic", topic)} == {0}, 60)
    java.produce(topic, 10)
    java.wait_consumed("ahead", 30)
    back = rmqctl(*words, "20")
    assert (back.exit_code, {item["result"] for item in back.document["items"]}) == (0, {"CONFIRMED"}), back.stdout
    java.wait_consumed("ahead", 40)
    java.suspend("ahead")
    java.produce(topic, 1)  # ends the pull that waits at the broker
    java.wait_consumed("ahead", 41)
    for _ in range(2):
        paused = rmqctl(*words, "10", "--wait-stable", "15s")
        assert paused.exit_code == 9, paused.stdout + paused.stderr
    java.call("resume", id="ahead")
    resumed = rmqctl(*words, "10")
    assert resumed.exit_code == 0, resumed.stdout + resumed.stderr
    java.wait_consumed("ahead", 41 + 21)
    java.stop("ahead")
