"""Changes whose requests brokers carry out after rmqctl has given up: what the receipt says, and the way back."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from rmqctl.model.plan import Operation
from rmqctl.model.receipt import ReceiptReport, Result, Who
from rmqctl.protocol.codes import RequestCode
from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.late_relay import LateRelay
from .harness.process import JavaProcess
from .harness.rmqctl import Rmqctl
from .harness.traffic import Traffic

_BROKER = "broker-a"
# Later than a request's 3.3 s; and later than all looks together.
_LATE_S, _TOO_LATE_S = 4.0, 21.0


pytestmark = pytest.mark.usefixtures("own_state")


@contextmanager
def _late(cluster: Cluster, code: int, late_s: float) -> Iterator[tuple[str, ...]]:
    """Return the options that lead to the broker through a relay which holds one kind of request back."""
    relay = LateRelay(cluster.brokers[_BROKER].port, {code: late_s})
    try:
        yield ("--map-address", f"{_BROKER}={relay.address}")
    finally:
        relay.close()


def _consumed(cluster: Cluster, topic: str, *groups: str) -> None:
    """Let groups consume 20 messages of a topic with two queues, and leave."""
    cluster.create_topic(topic, queue_count=2, brokers=(_BROKER,))
    cluster.java.produce(topic, 20)
    for group in groups:
        cluster.java.consume(group, group, topic)
    for group in groups:
        cluster.java.wait_consumed(group, 20)
        cluster.java.stop(group)


def _configuration(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """Have a group's configuration written after its time-out, and be seen."""
    group = "LateConfig"
    assert rmqctl("group", "create", group, "--broker", _BROKER, "--yes").exit_code == 0
    with _late(cluster, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, _LATE_S) as through:
        done = rmqctl("group", "update", group, "--retries", "3", "--yes", "-o", "json", *through)
    assert done.exit_code == 0, done.stderr + done.stdout
    (item,) = done.document["items"]
    assert (item["result"], item["after"]["retryMaxTimes"]) == ("CONFIRMED", 3)


def _online(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """Send a group that is at work back by 40 a queue, and compare what its receipt says with what its member got."""
    topic = "AgainTopic"
    cluster.create_topic(topic, queue_count=2, brokers=(_BROKER,))
    cluster.java.consume(topic, topic, topic, collect=1, each=1)
    cluster.java.produce(topic, 200)
    cluster.java.wait_consumed(topic, 200)
    cluster.java.persist(topic)
    traffic = Traffic(cluster, topic)
    with traffic.running():
        done = rmqctl("offset", "reset", topic, "--topic", topic, "--shift-by", "-40", "--yes", "-o", "json")
    assert done.exit_code == 0, done.stderr + done.stdout
    items = done.document["items"]
    at_least = sum(item["reconsumedAtLeast"] for item in items)
    # The queues went on after the plan, so more than 80 came again.
    assert at_least > 80
    wait_until(lambda: traffic.bodies <= {each.body for each in cluster.java.attempts(topic)})
    time.sleep(1)
    attempts = [each.body for each in cluster.java.attempts(topic)]
    again = len(attempts) - len(set(attempts))
    assert at_least <= again, items
    cluster.java.stop(topic)


def _stored(rmqctl: Rmqctl, group: str, topic: str) -> set[int | None]:
    return {row["consumerOffset"] for row in rmqctl.items("offset", "show", group, "--topic", topic)}


def test_a_change_that_happens_after_its_time_out_is_never_called_unchanged(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, soon, later = "LateTopic", "LateGroup", "TooLateGroup"
    _consumed(cluster, topic, soon, later)

    def reset(group: str, late_s: float) -> tuple[int, dict[str, Any], str]:
        with _late(cluster, RequestCode.UPDATE_CONSUMER_OFFSET, late_s) as through:
            words = ("--topic", topic, "--to-offset", "3", "--yes", "-o", "json", *through)
            done = rmqctl("offset", "reset", group, *words)
            # The relay ends with this block: what it holds back must have come to the broker by then.
            wait_until(lambda: _stored(rmqctl, group, topic) == {3}, timeout_s=30)
            return done.exit_code, done.document, done.stderr

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(reset, soon, _LATE_S)
        second = threads.submit(reset, later, _TOO_LATE_S)
        # Beside them: most of each is waiting.
        third = threads.submit(_configuration, cluster, rmqctl)
        _online(cluster, rmqctl)
        third.result()
        code, receipt, _ = first.result()
        assert (code, {item["result"] for item in receipt["items"]}) == (0, {"CONFIRMED"})
        assert receipt["errors"] == []

        code, receipt, _ = second.result()
    assert (code, {item["result"] for item in receipt["items"]}) == (9, {"UNKNOWN"})
    for item in receipt["items"]:
        assert (item["before"], item["after"], item["isAfterKnown"]) == (10, 10, True)
        assert "Offset 10 is stored (last read at 20" in item["note"]
        assert item["note"].endswith("The write may still take effect.")
    assert [(error["brokerName"], error["attempt"]) for error in receipt["errors"]] == [(_BROKER, "UNANSWERED_WRITE")]
    (change,) = rmqctl.items("offset", "history", later)
    assert (change["id"], change["unknownCount"]) == (receipt["id"], 2)
    # It has come since, and goes back.
    assert rmqctl("offset", "undo", receipt["id"], "--yes").exit_code == 0
    assert _stored(rmqctl, later, topic) == {10}


class _Pausing(Journal):
    """A journal that stops a broker right before it is written to, and lets it go on later."""

    def __init__(self, path: Path, java: JavaProcess, after_s: float) -> None:
        super().__init__(path)
        self._java, self._timer = java, threading.Timer(after_s, java.resume)

    def attempting(self, receipt_id: str, befores: Mapping[int, Any], *, now_ms: int | None = None) -> None:
        super().attempting(receipt_id, befores, now_ms=now_ms)
        if not self._timer.is_alive():
            self._java.pause()
            self._timer.start()


def test_a_broker_that_stands_still_while_it_is_written_to_is_read_again(cluster: Cluster, tmp_path: Path) -> None:
    topic, group = "StillTopic", "StillGroup"
    _consumed(cluster, topic, group)
    java = cluster.brokers[_BROKER].java
    assert java is not None

    async def scenario() -> ReceiptReport:
        async with Client([cluster.namesrv], timeout_s=6, open_ended=True) as client:
            plan = (
                await plan_offsets(
                    client, group, ResetRequest(Operation.OFFSET_RESET, TargetSpec(TargetKind.EARLIEST), (topic,))
                )
            ).plan
            document = plan_document(plan)
            who = Who("tester", os.uname().nodename, os.getpid(), None)
            with _Pausing(tmp_path / "journal.db", java, 7.0) as journal:
                return await apply_plan(
                    client, plan, json.dumps(document), document["sha256"], journal, who, strict=False, wait_s=0,
                    report=lambda _: None,
                )  # fmt: skip

    try:
        applied = asyncio.run(scenario())
    finally:
        java.resume()
    assert {item.result for item in applied.receipt.items} == {Result.CONFIRMED}
    assert {item.after for item in applied.receipt.items} == {0}
    assert (applied.exit_code, applied.failures) == (0, ())
