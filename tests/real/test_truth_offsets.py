"""Offsets that stand for none, retry topics that nobody ever read, queues that were cut off: on real brokers."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

from rmqctl.protocol import bodies
from rmqctl.protocol.codes import RequestCode
from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl


def _is_kept(cluster: Cluster, group: str) -> bool:
    """Tell whether a broker has entries of the group's offsets, whatever they say."""
    for name in cluster.addresses:
        with closing(cluster.asker(name)) as asker:
            answer = asker("broker", RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert answer is not None
        stored = bodies.decode_consumer_offsets(answer.body)
        if group in stored.groups or group in stored.emptied:
            return True
    return False


def _listed(rmqctl: Rmqctl, group: str) -> dict[str, Any]:
    (item,) = [item for item in rmqctl.items("group", "list") if item["group"] == group]
    return item


def _attention(rmqctl: Rmqctl, group: str) -> dict[str, str]:
    (item,) = rmqctl.items("group", "describe", group)
    return {finding["code"]: finding["sentence"] for finding in item["findings"]}


def test_a_group_whose_offsets_were_undone_can_be_deleted(cluster: Cluster, rmqctl: Rmqctl) -> None:
    group = topic = "Undone"
    cluster.create_topic(topic)
    cluster.java.produce(topic, 20)
    assert rmqctl("group", "create", group, "--yes").exit_code == 0
    done = rmqctl("offset", "reset", group, "--topic", topic, "--to-latest", "--yes")
    receipt = re.search(r"rmqctl offset undo (\S+)", done.stderr)
    assert receipt is not None, done.stderr
    assert rmqctl("offset", "undo", receipt[1], "--yes").exit_code == 0
    assert _is_kept(cluster, group)
    listed = _listed(rmqctl, group)
    assert (listed["lag"], listed["reasons"]["lag"], listed["attention"]) == (None, "NEVER_COMMITTED", [])
    assert rmqctl("group", "delete", group, "--with-offsets", "--yes").exit_code == 0
    assert not _is_kept(cluster, group)
    again = rmqctl("group", "delete", group, "--with-offsets", "--yes")
    assert again.exit_code == 5, again.stderr


def test_offsets_of_a_group_that_is_not_configured_any_more(cluster: Cluster, rmqctl: Rmqctl) -> None:
    group = topic = "Unconfigured"
    cluster.create_topic(topic)
    assert rmqctl("group", "create", group, "--yes").exit_code == 0
    assert rmqctl("offset", "reset", group, "--topic", topic, "--to-latest", "--yes").exit_code == 0
    assert rmqctl("group", "delete", group, "--yes").exit_code == 0
    deleted = rmqctl("offset", "delete", group, "--topic", topic, "--yes")
    if cluster.version == "4.9.7":
        assert deleted.exit_code == 0, deleted.stderr
        assert group not in {item["group"] for item in rmqctl.items("group", "list")}
    else:
        assert (deleted.exit_code, "--with-offsets" in deleted.stderr) == (1, True), deleted.stderr
    assert rmqctl("group", "delete", group, "--with-offsets", "--yes").exit_code == 0
    assert not _is_kept(cluster, group)


def test_failed_messages_that_nobody_ever_read_are_the_groups(cluster: Cluster, rmqctl: Rmqctl) -> None:
    group = topic = "Failed-And-Left"
    cluster.create_topic(topic)
    cluster.java.produce(topic, 20)
    cluster.java.consume("left", group, topic, fail="m", instance="left", **{"from": "first"})
    cluster.java.wait_started("left", 20)
    # It left before it read the retry topic, of which it learns up to 30 s later.
    cluster.java.stop("left")

    retry_topic = f"%RETRY%{group}"

    def retried() -> list[dict[str, Any]]:
        return [row for row in rmqctl.items("offset", "show", group) if row["topic"] == retry_topic]

    # Some may have failed twice by then, and some not have been sent back when it stopped.
    wait_until(lambda: sum(row["maxOffset"] for row in retried()) >= 10, timeout_s=60, why=retried)
    if any(row["consumerOffset"] is not None for row in retried()):
        # It learned of one broker's part in time.
        assert rmqctl("offset", "delete", group, "--topic", retry_topic, "--yes").exit_code == 0
    assert {row["reasons"].get("lag") for row in retried()} == {"NEVER_COMMITTED"}
    assert _listed(rmqctl, group)["reasons"]["lag"] == "NEVER_COMMITTED"


def test_messages_in_queues_that_were_cut_off(cluster: Cluster, rmqctl: Rmqctl) -> None:
    group = topic = "Cut-Off"
    cluster.create_topic(topic, queue_count=8, brokers=("broker-a",))
    cluster.java.produce(topic, 32)
    assert rmqctl("group", "create", group, "--yes").exit_code == 0
    assert rmqctl("offset", "reset", group, "--topic", topic, "--to-earliest", "--yes").exit_code == 0
    cut = sum(row["lag"] for row in rmqctl.items("offset", "show", group) if row["queueId"] >= 2)
    assert cut > 0
    cluster.create_topic(topic, queue_count=2, brokers=("broker-a",))
    wait_until(lambda: len(rmqctl.items("offset", "show", group)) == 2)
    assert f"{cut} messages" in _attention(rmqctl, group)["OFF004"]
    assert _listed(rmqctl, group)["unreadableMessageCount"] == cut
