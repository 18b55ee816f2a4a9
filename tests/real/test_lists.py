"""`group list` and `cluster list` against real brokers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl


@pytest.mark.smoke
def test_group_list_has_members_state_and_lag(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Listed")
    cluster.java.consume("one", "ListedGroup", "Listed")
    cluster.java.consume("two", "ListedGroup", "Listed")
    cluster.java.produce("Listed", 24)
    cluster.java.wait_consumed("one two", 24)

    def listed() -> dict[str, Any]:
        (item,) = (item for item in rmqctl.items("group", "list") if item["group"] == "ListedGroup")
        return item

    def is_done() -> bool:
        for name in ("one", "two"):
            cluster.java.persist(name)
        return listed()["lag"] == 0

    # While two members settle who has which queue, a message can be counted twice and another not yet be done.
    wait_until(is_done)
    online = listed()
    cluster.java.stop("one")
    cluster.java.stop("two")
    cluster.java.produce("Listed", 7)
    left = listed()

    assert (online["state"], online["memberCount"], online["lag"]) == ("ONLINE", 2, 0)
    assert (online["consumeType"], online["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert online["topics"] == ["%RETRY%ListedGroup", "Listed"]
    assert (left["state"], left["memberCount"], left["lag"]) == ("EMPTY", 0, 7)
    assert left["brokerNames"] == ["broker-a", "broker-b"]


def test_system_groups_are_shown_on_request(rmqctl: Rmqctl) -> None:
    ours = rmqctl("group", "list", "-o", "name").stdout.split()
    all_groups = rmqctl("group", "list", "--system", "-o", "name").stdout.split()

    assert "TOOLS_CONSUMER" in all_groups
    assert "TOOLS_CONSUMER" not in ours
    assert set(ours) < set(all_groups)


@pytest.mark.smoke
def test_cluster_list_equals_mqadmin(cluster: Cluster, rmqctl: Rmqctl) -> None:
    printed = cluster.java.mqadmin("clusterList")
    items = rmqctl.items("cluster", "list")

    assert [item["brokerName"] for item in items] == ["broker-a", "broker-b"]
    for item in items:
        assert item["brokerAddr"] in printed
        assert item["version"] == cluster.version
        # 4.9 says nothing of its rates in its first ten seconds.
        assert item["inTps"] is not None or item["reasons"]["inTps"] == "NOT_REPORTED"
        assert 0 < item["commitLogDiskRatio"] < 1
