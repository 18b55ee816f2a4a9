"""Groups whose members come through a proxy: no broker sees them, and rmqctl says so instead of "nobody"."""

from __future__ import annotations

from .harness.proxy import Proxy
from .harness.rmqctl import Rmqctl


def test_members_behind_a_proxy_are_unknown(proxy: Proxy) -> None:
    rmqctl, cluster = Rmqctl(proxy.cluster.namesrv), proxy.cluster
    cluster.create_topic("Behind")
    cluster.java.produce("Behind", 8)
    proxy.consumers.consume("behind", "BehindGroup", "Behind")
    proxy.consumers.wait_consumed("behind", 8)

    (listed,) = (item for item in rmqctl.items("group", "list") if item["group"] == "BehindGroup")
    shown = rmqctl("offset", "show", "BehindGroup")
    (described,) = rmqctl.items("group", "describe", "BehindGroup")
    members = rmqctl("group", "members", "BehindGroup")

    assert (listed["state"], listed["memberCount"]) == ("UNKNOWN", None)
    assert listed["reasons"]["memberCount"] == "BEHIND_PROXY"
    assert (described["state"], described["reasons"]["memberCount"]) == ("UNKNOWN", "BEHIND_PROXY")
    assert "Proxies are connected to this cluster" in shown.stderr
    assert shown.exit_code == members.exit_code == 0
    assert "behind a proxy" in members.stderr


def test_the_proxys_own_group_and_topic_are_the_systems(proxy: Proxy) -> None:
    rmqctl = Rmqctl(proxy.cluster.namesrv)
    groups = {item["group"] for item in rmqctl.items("group", "list", "--system")}
    topics = {item["topic"] for item in rmqctl.items("topic", "list")}

    assert "CID_DefaultHeartBeatSyncerTopic" in groups
    assert not any("broadcast" in group for group in groups)
    assert "CID_DefaultHeartBeatSyncerTopic" not in rmqctl("group", "list", "-o", "name").stdout
    assert "DefaultHeartBeatSyncerTopic" not in topics


def test_messages_that_come_back_are_not_called_consumed(proxy: Proxy) -> None:
    rmqctl, cluster = Rmqctl(proxy.cluster.namesrv), proxy.cluster
    cluster.create_topic("Failing")
    cluster.java.produce("Failing", 4)
    proxy.consumers.consume("failing", "FailingGroup", "Failing", fail=1)
    for _ in range(100):
        topics = {item["topic"] for item in rmqctl.items("offset", "show", "FailingGroup")}
        if "%RETRY%FailingGroup_Failing" in topics:
            break
    items = rmqctl.items("offset", "show", "FailingGroup")

    assert "%RETRY%FailingGroup_Failing" in {item["topic"] for item in items}
    assert {item["reasons"].get("inflight") for item in items if item["topic"] == "Failing"} == {"POP"}


def test_a_proxy_in_place_of_a_name_server_is_told(proxy: Proxy) -> None:
    result = Rmqctl(proxy.address)("group", "list")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{proxy.address} is a proxy, which cannot list the cluster." in result.stderr


def test_a_broker_in_place_of_a_name_server_is_told(proxy: Proxy) -> None:
    (broker,) = proxy.cluster.brokers.values()
    result = Rmqctl(broker.address)("group", "list")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{broker.address} is a broker, not a name server." in result.stderr


def test_diagnose_asks_the_proxy_for_members(proxy: Proxy) -> None:
    rmqctl, cluster = Rmqctl(proxy.cluster.namesrv), proxy.cluster
    cluster.create_topic("Diagnosed")
    cluster.java.produce("Diagnosed", 8)
    proxy.consumers.consume("diagnosed", "DiagnosedGroup", "Diagnosed")
    proxy.consumers.wait_consumed("diagnosed", 8)
    # This one consumed at the broker, and has left.
    cluster.java.consume("left", "LeftGroup", "Diagnosed", **{"from": "first"})
    cluster.java.wait_consumed("left", 8)
    cluster.java.stop("left")
    cluster.java.produce("Diagnosed", 8)

    def codes(group: str, *words: str) -> set[str]:
        result = rmqctl("diagnose", group, "--for", "0s", "--settle", "0s", "-o", "json", *words)
        return {item["code"] for item in result.document["items"] if item["code"].startswith(("PXY", "OFF005"))}

    assert codes("DiagnosedGroup", "--proxy", proxy.address) == {"PXY001"}
    assert codes("LeftGroup", "--proxy", proxy.address) == {"PXY002"}
    for group in ("DiagnosedGroup", "LeftGroup"):
        assert codes(group) == set()
        assert codes(group, "--proxy", "127.0.0.1:1") == set()
