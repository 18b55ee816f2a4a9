"""Dead letters that Java consumers made: listed, read, counted, exported."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path

import pytest

from .harness.cluster import Cluster
from .harness.queue_tables import wait_until
from .harness.rmqctl import Rmqctl

_COUNT = 12


def _count(rmqctl: Rmqctl, group: str) -> int:
    return sum(item["count"] for item in rmqctl.items("dlq", "list", group))


@pytest.mark.smoke
def test_dead_letters_of_a_java_consumer(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    topic, group, java = "DeadSeen", "DeadSeenGroup", cluster.java
    cluster.create_topic(topic, queue_count=4)
    java.consume("dead", group, topic, fail="{", max=0)
    bodies = [json.dumps({"n": number, "to": {"region": ("EU", "US")[number % 2]}}) for number in range(_COUNT)]
    for number, body in enumerate(bodies):
        text = base64.b64encode(body.encode()).decode()
        java.produce(topic, 1, body64=text, key=f"k{number}", tag=("a", "b", "c")[number % 3])
    java.produce(topic, 5, prefix="good")
    wait_until(lambda: _count(rmqctl, group) == _COUNT, "the dead letters")
    java.stop("dead")
    (listed,) = rmqctl.items("dlq", "list", group)
    assert (listed["newCount"], listed["isReadable"], listed["reasons"]) == (_COUNT, True, {})
    assert listed["keptUntilTimestamp"] - listed["earliestTimestamp"] == 72 * 3_600_000
    shown = rmqctl.items("dlq", "show", group)
    assert {item["body"] for item in shown} == set(bodies)
    assert {(item["originTopic"], item["reconsumeTimes"]) for item in shown} == {(topic, 1)}
    for item in shown:
        # When the broker is too busy to take a message back, the client sends it to the retry topic itself, with its
        # limit (sendMessageBackAsNormalMessage).
        is_sent = "MAX_RECONSUME_TIMES" in item["properties"]
        assert item["givenUp"] == ("MAX_RECONSUME_TIMES" if is_sent else "FIRST_FAILURE")
    european = rmqctl.items("dlq", "show", group, "--body-match", "to.region == 'EU' && n > `2`")
    assert {json.loads(item["body"])["n"] for item in european} == set(range(4, _COUNT, 2))
    tags = {item["value"]: item["count"] for item in rmqctl.items("dlq", "stats", group, "--by", "tag")}
    assert tags == {"a": 4, "b": 4, "c": 4}
    path = tmp_path / "letters.jsonl"
    assert rmqctl("dlq", "export", group, "--to", str(path)).exit_code == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert Counter(base64.b64decode(row["bodyBase64"]).decode() for row in rows) == Counter(bodies)
    assert {row["msgId"] for row in rows} == {item["msgId"] for item in shown}


def test_retried_ones_and_a_topic_that_is_write_only(
    cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group, java = "DeadOld", "DeadOldGroup", cluster.java
    cluster.create_topic(topic, queue_count=2, brokers=("broker-a",))
    java.consume("old", group, topic, fail="bad", max=1)
    java.produce(topic, 4, prefix="bad")
    wait_until(lambda: _count(rmqctl, group) == 4, "the dead letters")
    java.stop("old")
    assert {(item["reconsumeTimes"], item["givenUp"]) for item in rmqctl.items("dlq", "show", group)} == {
        (2, "AFTER_RETRIES")
    }
    # As brokers before 4.9.2 make it.
    perm = ("-t", f"%DLQ%{group}", "-p", "2", "-b", cluster.addresses["broker-a"])
    java.mqadmin("updateTopicPerm", *perm)
    wait_until(lambda: rmqctl("dlq", "show", group).exit_code == 1, "the route")
    refused = rmqctl("dlq", "show", group)
    assert "--fix-permission" in refused.stderr
    (listed,) = rmqctl.items("dlq", "list", group)
    assert (listed["count"], listed["isReadable"], listed["reasons"]["newCount"]) == (4, False, "NOT_READABLE")
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    assert rmqctl("dlq", "show", group, "--fix-permission", "--yes").exit_code == 0
    wait_until(lambda: rmqctl("dlq", "show", group).exit_code == 0, "the opened topic in the route")
    assert len(rmqctl.items("dlq", "show", group)) == 4
