"""`topic create`, `update` and `delete` against real brokers: what Java's clients and mqadmin make of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from rmqctl.protocol.java_json import loads

from .harness.cluster import Cluster
from .harness.queue_tables import wait_until
from .harness.rmqctl import Rmqctl

pytestmark = pytest.mark.usefixtures("own_state")


def _codes(rmqctl: Rmqctl, *words: str) -> dict[str, str]:
    plan = rmqctl(*words, "--dry-run", "-o", "json").document
    return {each["code"]: each["text"] for each in plan["consequences"]}


def _mqadmin_route(cluster: Cluster, topic: str) -> dict[str, tuple[int, int, int]]:
    """Return what mqadmin shows of a topic's route: read queues, write queues and permission by broker."""
    said = cluster.java.mqadmin("topicRoute", "-t", topic)
    if not said.lstrip().startswith("{"):
        return {}
    data = loads(said.encode())["queueDatas"]
    return {each["brokerName"]: (each["readQueueNums"], each["writeQueueNums"], each["perm"]) for each in data}


def test_java_uses_a_topic_that_was_created_and_changed(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic = "TopicMade"
    more = ("--type", "NORMAL") if cluster.version.startswith("5") else ()
    made = rmqctl.change("topic", "create", topic, "--queues", "2", *more)
    assert _mqadmin_route(cluster, topic) == {"broker-a": (2, 2, 6), "broker-b": (2, 2, 6)}
    cluster.java.consume("made", "TopicMadeGroup", topic, collect=1)
    cluster.java.produce(topic, 20)
    cluster.java.wait_consumed("made", 20)

    closed = rmqctl.change("topic", "update", topic, "--perm", "r", "--queues", "3", "--broker", "broker-a")
    assert _mqadmin_route(cluster, topic) == {"broker-a": (3, 3, 4), "broker-b": (2, 2, 6)}
    sent = cluster.java.mqadmin("sendMessage", "-t", topic, "-p", "hello")  # a new producer, with a new route
    assert "broker-b" in sent
    assert "broker-a" not in sent
    rmqctl.change("offset", "undo", closed["id"])
    assert _mqadmin_route(cluster, topic) == {"broker-a": (2, 2, 6), "broker-b": (2, 2, 6)}
    cluster.java.produce(topic, 20, queue="broker-a:1")
    cluster.java.wait_consumed("made", 41)
    cluster.java.stop("made")

    codes = _codes(rmqctl, "offset", "undo", made["id"])
    assert codes["MESSAGES_DELETED"].startswith("41 messages are deleted at broker-a, broker-b.")
    rmqctl.change("offset", "undo", made["id"])
    assert _mqadmin_route(cluster, topic) == {}
    assert topic not in cluster.java.mqadmin("topicList").split()


def test_a_deletion_names_what_java_has_not_read(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group = "TopicGone", "TopicGoneGroup"
    is_5 = cluster.version.startswith("5")
    cluster.create_topic(topic, queue_count=2)
    cluster.java.consume("gone", group, topic, collect=1)
    cluster.java.produce(topic, 10)
    cluster.java.wait_consumed("gone", 10)
    cluster.java.persist("gone")
    wait_until(lambda: "UNREAD_LOST" not in _codes(rmqctl, "topic", "delete", topic), "committed offsets")
    codes = _codes(rmqctl, "topic", "delete", topic)
    assert group in codes["READERS"]
    cluster.java.stop("gone")
    cluster.java.produce(topic, 7)
    codes = _codes(rmqctl, "topic", "delete", topic)
    assert codes["MESSAGES_DELETED"].startswith("17 messages are deleted")
    assert codes["UNREAD_LOST"] == f"Group {group} has 7 unread messages: they are deleted."
    assert ("OFFSETS_GO" in codes, "OFFSETS_STAY" in codes) == (is_5, not is_5)

    # On one broker: no client uses what the route still lists there.
    part = rmqctl.change("topic", "delete", topic, "--broker", "broker-b")
    assert _mqadmin_route(cluster, topic) == {"broker-a": (2, 2, 6), "broker-b": (2, 2, 0)}
    rmqctl.change("offset", "undo", part["id"])
    assert _mqadmin_route(cluster, topic) == {"broker-a": (2, 2, 6), "broker-b": (2, 2, 6)}

    whole = rmqctl.change("topic", "delete", topic)
    assert _mqadmin_route(cluster, topic) == {}
    codes = _codes(rmqctl, "offset", "undo", whole["id"])
    assert ("EMPTY" in codes, "OFFSETS_THERE" in codes) == (True, not is_5)
    rmqctl.change("offset", "undo", whole["id"])
    assert _mqadmin_route(cluster, topic) == {"broker-a": (2, 2, 6), "broker-b": (2, 2, 6)}


def _create(topic: str, count: str) -> tuple[str, ...]:
    return ("topic", "create", topic, "--queues", count, "--yes")


def test_two_at_once_make_one_topic(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """One of two writers wins, the other is refused, finds it done, or finds that its plan is out of date."""
    topic = "TopicRace"
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda count: rmqctl(*_create(topic, count)).exit_code, ("2", "4")))
    assert 0 in results
    assert set(results) <= {0, 1, 7}
    assert results.count(0) == 1
    sizes = set(_mqadmin_route(cluster, topic).values())
    assert len(sizes) == 1
    rmqctl.change("topic", "delete", topic)
