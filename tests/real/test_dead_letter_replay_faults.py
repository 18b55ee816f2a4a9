"""Dead letters replayed to a target that stops taking them: none is lost, none is sent twice, and it is said."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from typing import Any

import pytest

from tests.real.harness.conditions import wait_until
from tests.schemas import check_document

from .harness.cluster import Cluster
from .harness.dead_letters import put_letters
from .harness.replay_kills import ledger_of, start_replay, stored_count
from .harness.rmqctl import PATIENT, Rmqctl
from .harness.small_disk import SmallDiskCluster

pytestmark = pytest.mark.usefixtures("own_state")


def _ended(running: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Wait for the end of a replay. Returns its exit code and its receipt."""
    out, err = running.communicate(timeout=280)
    assert out, err
    receipt: dict[str, Any] = json.loads(out)
    check_document(receipt)
    return running.returncode, receipt


def _check_part(cluster: Cluster, rmqctl: Rmqctl, group: str, target: str, receipt: dict[str, Any], count: int) -> int:
    """Check that receipt, ledger and target agree on how many are sent, and return how many."""
    sent_count: int = receipt["summary"]["sentCount"]
    ledger = ledger_of(rmqctl, group)
    assert 0 < sent_count < count
    assert receipt["summary"]["inDoubtCount"] == ledger["inDoubtCount"] == 0
    assert sent_count == ledger["sentCount"] == ledger["runs"][-1]["sentCount"] == stored_count(cluster, target)
    assert (ledger["leftCount"], ledger["state"]) == (count - sent_count, "LEFT")
    return sent_count


def _check_each_once(rmqctl: Rmqctl, group: str, target: str, count: int) -> None:
    found = rmqctl.items("message", "find", target, "--limit", str(2 * count), "--body", "none")
    assert Counter(item["msgId"] for item in found) == {f"{group}-{number}": 1 for number in range(count)}
    assert len({item["properties"]["RMQCTL_REPLAY"] for item in found}) == count
    ledger = ledger_of(rmqctl, group)
    assert (ledger["sentCount"], ledger["inDoubtCount"], ledger["state"]) == (count, 0, "DONE")


def test_a_target_that_becomes_read_only(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """Brokers store what is sent to a read-only topic all the same: clients keep to its route, which is 30 s old."""
    group, target, count = "ReadOnlyHalfWay", "ReadOnlyTarget", 5_000
    put_letters(cluster, group, target, count, brokers=("broker-a", "broker-b"))
    cluster.create_topic(target, queue_count=2)
    words = ("dlq", "replay", group, "--to-topic", target, "--yes", "-o", "json")
    # It would last for 100 s.
    running = start_replay(cluster, (*words, "--rate", "50"), stdout=subprocess.PIPE)
    wait_until(lambda: stored_count(cluster, target) >= 100)
    cluster.create_topic(target, queue_count=2, perm=4)
    code, receipt = _ended(running)
    assert code == 8
    assert {error["name"] for error in receipt["errors"]} == {"REFUSED"}
    assert all("no writable queue" in error["message"] for error in receipt["errors"])
    sent_count = _check_part(cluster, rmqctl, group, target, receipt, count)

    refused = rmqctl(*words)
    assert (refused.exit_code, refused.stdout) == (1, "")
    cluster.create_topic(target, queue_count=2)
    again = rmqctl(*words)
    assert (again.exit_code, again.document["summary"]["sentCount"]) == (0, count - sent_count), again.stderr
    _check_each_once(rmqctl, group, target, count)


def test_a_broker_whose_disk_gets_full(small_disk: SmallDiskCluster) -> None:
    group, target, count, rmqctl = "DiskFull", "DiskFullTarget", 5_000, Rmqctl(small_disk.namesrv, timeout=PATIENT)
    put_letters(small_disk, group, target, count)
    small_disk.create_topic(target, queue_count=2)
    words = ("dlq", "replay", group, "--to-topic", target, "--yes", "-o", "json")
    # The broker looks at its disk every 10 s, 5.4 from 60 s after its start on: the replay would last for 200 s.
    running = start_replay(small_disk, (*words, "--rate", "25"), stdout=subprocess.PIPE)
    wait_until(lambda: stored_count(small_disk, target) >= 100)
    small_disk.fill()
    code, receipt = _ended(running)
    assert code == 8
    assert {error["name"] for error in receipt["errors"]} == {"SERVICE_NOT_AVAILABLE"}
    assert all(re.search("disk.*full", error["message"]) for error in receipt["errors"])
    sent_count = _check_part(small_disk, rmqctl, group, target, receipt, count)

    refused = rmqctl(*words[:-2])
    assert refused.exit_code == 1
    assert re.search(r"answered SERVICE_NOT_AVAILABLE \(14\): .*disk.*full", refused.stderr)
    assert ledger_of(rmqctl, group)["inDoubtCount"] == 0
    assert stored_count(small_disk, target) == sent_count
    small_disk.free()
    # Until the broker has looked, it refuses.
    wait_until(lambda: rmqctl(*words).exit_code == 0, timeout_s=120)
    _check_each_once(rmqctl, group, target, count)


def test_a_broker_that_was_stopped_and_goes_on(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """It stores what was sent to it earlier as late as it answers who looks for the copies."""
    group, target, count = "StoppedBroker", "StoppedBrokerTarget", 1_000
    put_letters(cluster, group, target, count, brokers=("broker-b",))
    cluster.create_topic(target, queue_count=1)
    words = ("dlq", "replay", group, "--to-topic", target, "--yes")
    running = start_replay(cluster, (*words, "--rate", "100", "-o", "json"), stdout=subprocess.PIPE)
    wait_until(lambda: stored_count(cluster, target) >= 200)
    stopped = cluster.brokers["broker-a"].java
    assert stopped is not None
    stopped.pause()
    try:
        code, receipt = _ended(running)
        summary, ledger = receipt["summary"], ledger_of(rmqctl, group)
        assert (code, summary["inDoubtCount"]) == (8, ledger["inDoubtCount"])
        assert summary["inDoubtCount"] > 0
        assert summary["sentCount"] == ledger["sentCount"] < count
        running = start_replay(cluster, words, stdout=subprocess.PIPE)
        assert running.stderr is not None
        assert any("that an earlier run may have sent" in line for line in running.stderr)
    finally:
        stopped.resume()
    running.communicate(timeout=180)
    wait_until(lambda: rmqctl(*words).exit_code == 0, timeout_s=120)
    _check_each_once(rmqctl, group, target, count)
