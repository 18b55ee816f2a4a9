"""What a plan foretells, held against what real groups then consume."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.real.harness.conditions import wait_until
from tests.schemas import check_document

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl

_BROKER = "broker-a"


pytestmark = pytest.mark.usefixtures("own_state")


def _has_stored(rmqctl: Rmqctl, group: str, topic: str, offset: int) -> bool:
    rows = rmqctl.items("offset", "show", group, "--topic", topic)
    return {row["consumerOffset"] for row in rows} == {offset}


def test_members_that_are_ahead_make_ranges_that_hold(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """A listener hangs on offset 10 of each queue; all behind it is consumed, which the stored offsets don't tell."""
    topic, group, name = "TruthAhead", "TruthAhead", "truth-ahead"
    cluster.create_topic(topic, queue_count=2, brokers=(_BROKER,))
    for queue in (0, 1):
        place = f"{_BROKER}:{queue}"
        for prefix, count in ((f"a{queue}-", 10), (f"stuck{queue}-", 1), (f"c{queue}-", 399)):
            cluster.java.produce(topic, count, queue=place, prefix=prefix, **({"batch": 100} if count > 100 else {}))
    cluster.java.consume(name, group, topic, collect=1, stuck="stuck")
    cluster.java.wait_consumed(name, 818)
    cluster.java.persist(name)
    wait_until(lambda: _has_stored(rmqctl, group, topic, 10), 20)
    words = ("offset", "reset", group, "--topic", topic, "--to-offset", "60")
    shown = rmqctl(*words, "--dry-run")
    assert "0-700 messages would be redelivered, 2-100 skipped." in shown.stderr
    assert "Members have pulled 800 messages past the stored offsets and consumed up to 798 of them." in shown.stderr
    assert shown.stdout.splitlines()[1].split()[8:10] == ["0-350", "1-50"]
    plan = rmqctl(*words, "--dry-run", "-o", "json").document
    for item in plan["items"]:
        assert (item["reconsumed"], item["skipped"]) == (None, None)
        assert (item["reasons"]["reconsumed"], item["reasons"]["skipped"]) == ("IN_FLIGHT", "IN_FLIGHT")
    back = rmqctl("offset", "reset", group, "--topic", topic, "--shift-by", "-5", "--dry-run")
    assert "10-808 messages would be redelivered, 0 skipped." in back.stderr
    known = len(cluster.java.attempts(name))
    assert rmqctl(*words, "--yes", limit_s=120).exit_code == 0
    cluster.java.wait_started(name, known + 700)
    time.sleep(0.5)
    attempts = [each.body for each in cluster.java.attempts(name)]
    again, finished = Counter(attempts) - Counter(set(attempts)), set(cluster.java.bodies(name))
    for queue, item in enumerate(plan["items"]):
        redelivered = sum(count for body, count in again.items() if body.startswith(f"c{queue}-"))
        assert item["reconsumedMin"] <= redelivered <= item["reconsumedMax"]
        wanted = {f"a{queue}-{at}" for at in range(10)} | {f"c{queue}-{at}" for at in range(399)} | {f"stuck{queue}-0"}
        assert item["skippedMin"] <= len(wanted - finished) <= item["skippedMax"]
    cluster.java.release(name)
    cluster.java.stop(name)


def test_a_filter_is_named_and_a_topic_that_nobody_subscribes_to(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, other, group, name = "TruthFiltered", "TruthOther", "TruthFilter", "truth-filter"
    for each in (topic, other):
        cluster.create_topic(each, queue_count=1, brokers=(_BROKER,))
    cluster.java.produce(topic, 300, tag="A", queue=f"{_BROKER}:0", batch=100)
    cluster.java.consume(name, group, topic, expr="B", **{"from": "first"})
    wait_until(lambda: cluster.java.persist(name) is None and _has_stored(rmqctl, group, topic, 300), 30)
    shown = rmqctl("offset", "reset", group, "--topic", topic, "--shift-by", "-100", "--dry-run")
    assert "100 messages (before the group's filter B) would be redelivered, 0 skipped." in shown.stderr
    shown = rmqctl("offset", "reset", group, "--topic", other, "--to-earliest", "--dry-run")
    assert f"No member subscribes to {other}: messages there are not consumed." in shown.stderr
    plan = rmqctl("offset", "reset", group, "--topic", topic, "--to-time", "-1h", "--dry-run", "-o", "json").document
    assert plan["filters"] == {topic: ["B"]}
    # Brokers tell their time, and here it is this machine's.
    assert abs(plan["createdAtMs"] - plan["timeMs"] - 3_600_000) < 5_000
    assert not {item["code"] for item in plan["consequences"]} & {"CLOCK_SKEW", "CLOCK_UNKNOWN", "CLOCKS_DIFFER"}
    cluster.java.stop(name)


def test_what_waits_for_its_delay_is_not_skipped_and_that_is_said(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group = "TruthDelayed", "TruthDelayed"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    cluster.java.produce(topic, 5, queue=f"{_BROKER}:0")
    cluster.java.consume("truth-failing", group, topic, fail="m")
    cluster.java.wait_started("truth-failing", 5)
    wait_until(lambda: cluster.java.persist("truth-failing") is None and _has_stored(rmqctl, group, topic, 5), 20)
    cluster.java.stop("truth-failing")
    wait_until(lambda: rmqctl("group", "members", group, "-o", "name").stdout == "", 20)
    done = rmqctl("offset", "skip", group, "--with-retry", "--yes")
    assert done.exit_code == 0, done.stderr
    assert "Failed messages that still wait for their retry delay" in done.stderr
    cluster.java.consume("truth-next", group, topic, collect=1)
    cluster.java.wait_consumed("truth-next", 5)
    assert {each.reconsume_times for each in cluster.java.attempts("truth-next")} == {1}
    cluster.java.stop("truth-next")


def test_a_topic_that_was_made_again_is_drift(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    """Of a group without offsets nothing else tells: it would begin far behind the end of an empty queue."""
    topic, group, path = "TruthAgain", "TruthNew", tmp_path / "plan.json"
    cluster.create_topic(topic, queue_count=2, brokers=(_BROKER,))
    for queue in (0, 1):
        cluster.java.produce(topic, 20, queue=f"{_BROKER}:{queue}")
    assert rmqctl("group", "create", group, "--yes").exit_code == 0
    made = rmqctl("offset", "reset", group, "--topic", topic, "--to-offset", "10", "--plan", str(path))
    assert made.exit_code == 0, made.stderr
    check_document(json.loads(path.read_text()))
    cluster.java.mqadmin("deleteTopic", "-n", cluster.namesrv, "-c", "DefaultCluster", "-t", topic)
    wait_until(lambda: rmqctl("topic", "status", topic).exit_code == 5, 20)
    cluster.create_topic(topic, queue_count=2, brokers=(_BROKER,))
    refused = rmqctl("apply", str(path), "--yes")
    assert refused.exit_code == 7, refused.stderr + refused.stdout
    assert "its end went back from 20 to 0" in refused.stderr
    assert rmqctl.items("offset", "history") == [] or all(
        item["operation"] == "group create" for item in rmqctl.items("offset", "history")
    )
    # A group that is not configured any more, as well.
    gone = tmp_path / "gone.json"
    assert rmqctl("offset", "reset", group, "--topic", topic, "--to-latest", "--plan", str(gone)).exit_code == 0
    cluster.java.mqadmin("deleteSubGroup", "-n", cluster.namesrv, "-c", "DefaultCluster", "-g", group)
    refused = rmqctl("apply", str(gone), "--yes")
    assert refused.exit_code in (5, 7), refused.stderr + refused.stdout
    assert refused.stdout == ""
