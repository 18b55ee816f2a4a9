"""`group describe`, `members`, `subscriptions` and `config` against real brokers with Java push consumers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl


def _until(read: Callable[[], list[dict[str, Any]]], settled: Callable[[list[dict[str, Any]]], bool]) -> list[Any]:
    """Read until members have settled who holds which queue; return that reading."""
    items: list[dict[str, Any]] = []

    def is_settled() -> bool:
        items[:] = read()
        return settled(items)

    wait_until(is_settled, why=lambda: items)
    return items


def _held(items: list[dict[str, Any]], topic: str) -> list[str]:
    """Return the topic's queues that members say they hold, as often as they say it."""
    return sorted(queue for item in items for queue in item["queues"] or () if queue.startswith(f"{topic}@"))


def _all_held(topic: str, count: int) -> Callable[[list[dict[str, Any]]], bool]:
    """Tell when every queue of a topic has one owner. Retry topics can take a rebalance (20 s) longer."""
    return lambda items: len(held := _held(items, topic)) == len(set(held)) == count


@pytest.mark.smoke
def test_members_and_subscriptions_equal_mqadmin(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Members")
    ids = [cluster.java.consume(name, "MembersGroup", "Members", expr="TagB || TagA") for name in ("one", "two")]

    def are_shared(items: list[dict[str, Any]]) -> bool:
        """All are also held while the first member has them, before the second one gets its share."""
        return _all_held("Members", 8)(items) and [len(_held([item], "Members")) for item in items] == [4, 4]

    members = _until(lambda: rmqctl.items("group", "members", "MembersGroup"), are_shared)
    (subscription,) = rmqctl.items("group", "subscriptions", "MembersGroup")
    printed = cluster.java.mqadmin("consumerConnection", "-g", "MembersGroup")
    status = cluster.java.mqadmin("consumerStatus", "-g", "MembersGroup")
    cluster.java.stop("one")
    cluster.java.stop("two")

    rows = re.findall(r"^(\S+@\S+)\s+(\S+:\d+)\s+(\w+)\s+V(\S+)", printed, re.MULTILINE)
    assert sorted(ids) == [item["clientId"] for item in members] == sorted(row[0] for row in rows)
    addresses = {address for item in members for at_broker in item["clientAddrs"].values() for address in at_broker}
    assert {row[1] for row in rows} <= addresses
    for item in members:
        assert (item["language"], item["clientVersion"]) == ("JAVA", cluster.version)
        assert (item["brokerNames"], item["unseenAt"]) == (["broker-a", "broker-b"], [])
        assert item["clientId"] in status
        assert (item["strategy"], item["consumeType"], item["messageModel"]) == (
            "averagely", "CONSUME_PASSIVELY", "CLUSTERING",
        )  # fmt: skip
        assert item["isOrderly"] is False
        assert item["queueCount"] == len(item["queues"])
        assert len(_held([item], "Members")) == 4
    assert _held(members, "Members") == [f"Members@{name}:{i}" for name in ("broker-a", "broker-b") for i in range(4)]

    assert re.search(r"^Members\s+TagB \|\| TagA$", printed, re.MULTILINE)
    assert (subscription["topic"], subscription["expressionType"]) == ("Members", "TAG")
    assert subscription["subString"] == "TagB || TagA"
    assert subscription["tagsSet"] == ["TagA", "TagB"]
    assert (subscription["agrees"], len(subscription["clientIds"])) == (True, 2)
    assert subscription["brokerNames"] == ["broker-a", "broker-b"]


def test_a_client_of_one_broker_is_not_missed_at_the_other(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Lonely", brokers=("broker-a",))
    cluster.java.consume("lonely", "LonelyGroup", "Lonely", ip="10.1.0.9")
    (member,) = _until(lambda: rmqctl.items("group", "members", "LonelyGroup"), _all_held("Lonely", 4))
    (described,) = rmqctl.items("group", "describe", "LonelyGroup")
    cluster.java.stop("lonely")

    assert member["unseenAt"] == []
    assert "broker-a" in member["brokerNames"]
    assert not any("not seen" in sentence for sentence in described["attention"])


def test_members_that_want_different_things_are_told(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("TornOne")
    cluster.create_topic("TornTwo")
    first = cluster.java.consume("first", "TornGroup", "TornOne", expr="TagA", ip="10.1.0.1")
    second = cluster.java.consume("second", "TornGroup", "TornTwo", expr="TagA||TagB", ip="10.1.0.2")
    subscriptions = rmqctl.items("group", "subscriptions", "TornGroup")
    (described,) = rmqctl.items("group", "describe", "TornGroup")
    shown = rmqctl.items("offset", "show", "TornGroup")
    cluster.java.stop("first")
    cluster.java.stop("second")

    by_topic = {item["topic"]: item for item in subscriptions}
    assert set(by_topic) == {"TornOne", "TornTwo"}
    assert (by_topic["TornOne"]["clientIds"], by_topic["TornOne"]["lackingClientIds"]) == ([first], [second])
    assert (by_topic["TornTwo"]["clientIds"], by_topic["TornTwo"]["lackingClientIds"]) == ([second], [first])
    assert not any(item["agrees"] for item in subscriptions)
    # Brokers keep the subscription of whoever was heard last, and leave the other topic out of all their answers.
    assert all(
        item["brokerNames"] == [] or set(item["brokerNames"]) <= {"broker-a", "broker-b"} for item in subscriptions
    )
    assert any("TornOne" in sentence for sentence in described["attention"])
    assert {"TornOne", "TornTwo"} <= {item["topic"] for item in shown}


def test_a_sql_filter_is_shown_as_it_is(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("SqlWanted")
    cluster.java.consume("sql", "SqlGroup", "SqlWanted", sql="a > 5 AND b = 'x'")
    (item,) = rmqctl.items("group", "subscriptions", "SqlGroup")
    cluster.java.stop("sql")

    assert (item["expressionType"], item["subString"], item["tagsSet"]) == ("SQL92", "a > 5 AND b = 'x'", [])
    assert item["agrees"] is True


def test_configurations_that_differ_are_told_by_broker(cluster: Cluster, rmqctl: Rmqctl) -> None:
    for name, retries in (("broker-a", 3), ("broker-b", 5)):
        cluster.java.mqadmin(
            "updateSubGroup", "-b", cluster.brokers[name].address, "-g", "TwoMinds", "-r", str(retries), "-d", "true"
        )  # fmt: skip
    cluster.java.mqadmin("updateSubGroup", "-b", cluster.brokers["broker-a"].address, "-g", "HalfKnown")
    items = rmqctl.items("group", "config", "TwoMinds")
    half = rmqctl.items("group", "config", "HalfKnown")
    (described,) = rmqctl.items("group", "describe", "TwoMinds")

    assert [(item["brokerName"], item["retryMaxTimes"]) for item in items] == [("broker-a", 3), ("broker-b", 5)]
    assert [item["settings"]["retryMaxTimes"] for item in items] == [3, 5]
    assert [item["differingFields"] for item in items] == [["retryMaxTimes"], ["retryMaxTimes"]]
    assert any("different settings" in sentence for sentence in described["attention"])
    assert [item["isConfigured"] for item in half] == [True, False]
    assert half[1]["reasons"]["retryMaxTimes"] == "NOT_CONFIGURED"


def test_a_group_that_there_is_not_gets_a_suggestion_everywhere(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", "Suggested")
    for words in ("describe", "members", "subscriptions", "config"):
        result = rmqctl("group", words, "Sugested")
        assert (result.exit_code, result.stdout) == (5, "")
        assert "Did you mean Suggested?" in result.stderr


@pytest.mark.parametrize("words", ["describe", "members", "subscriptions", "config"])
def test_reading_creates_no_group(words: str, rmqctl: Rmqctl) -> None:
    assert rmqctl("group", words, "NeverThere").exit_code == 5
    assert rmqctl("group", "list", "NeverThere").exit_code == 5


def test_patterns_pick_groups(cluster: Cluster, rmqctl: Rmqctl) -> None:
    for name in ("Picked-1", "Picked-2", "NotPicked"):
        cluster.java.mqadmin("updateSubGroup", "-c", "DefaultCluster", "-g", name)
    described = rmqctl.items("group", "describe", "Picked-*")
    listed = rmqctl("group", "list", "Picked-?", "-o", "name").stdout.split()

    assert [item["group"] for item in described] == listed == ["Picked-1", "Picked-2"]


def test_names_of_a_namespace_are_written_without_it(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("NSX%Spaced")
    cluster.java.consume("spaced", "NSX%SpacedGroup", "NSX%Spaced")
    shown = rmqctl.items("offset", "show", "SpacedGroup", "--topic", "Spaced", "--namespace", "NSX")
    listed = rmqctl("group", "list", "--namespace", "NSX", "-o", "name").stdout.split()
    topics = rmqctl("topic", "list", "--namespace", "NSX", "-o", "name").stdout.split()
    (member,) = rmqctl.items("group", "members", "SpacedGroup", "--namespace", "NSX")
    cluster.java.stop("spaced")

    assert {item["topic"] for item in shown} == {"NSX%Spaced"}
    assert len(shown) == 8
    assert listed == ["NSX%SpacedGroup"]
    assert topics == ["NSX%Spaced"]
    assert member["brokerNames"] == ["broker-a", "broker-b"]
