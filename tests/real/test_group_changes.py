"""`group create`, `update` and `delete` against real brokers: what Java's consumers and mqadmin make of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from .harness.cluster import Cluster
from .harness.jars import RELEASES
from .harness.queue_tables import wait_until
from .harness.rmqctl import Rmqctl

_QUIET_S = 3.0


pytestmark = pytest.mark.usefixtures("own_state")


def _settings(rmqctl: Rmqctl, group: str) -> dict[str, dict[str, Any]]:
    return {item["brokerName"]: item["settings"] for item in rmqctl.items("group", "config", group)}


def _stored(rmqctl: Rmqctl, group: str, topic: str) -> dict[str, int | None]:
    rows = rmqctl.items("offset", "show", group, "--topic", topic)
    return {f"{row['brokerName']}:{row['queueId']}": row["consumerOffset"] for row in rows}


def _consumed(cluster: Cluster, name: str) -> int:
    return int(cluster.java.call("consumed", id=name))


def test_a_group_at_work_is_changed_and_goes_on(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("ChangeOnline", queue_count=2)
    cluster.java.consume("change-online", "ChangeOnlineGroup", "ChangeOnline")
    cluster.java.produce("ChangeOnline", 20)
    cluster.java.wait_consumed("change-online", 20)
    before = _settings(rmqctl, "ChangeOnlineGroup")
    receipt = rmqctl.change("group", "update", "ChangeOnlineGroup", "--retries", "3")
    assert {name: {**each, "retryMaxTimes": 3} for name, each in before.items()} == _settings(
        rmqctl, "ChangeOnlineGroup"
    )
    cluster.java.produce("ChangeOnline", 20)
    cluster.java.wait_consumed("change-online", 40)

    # The same again with mqadmin, which does not read what is there.
    for address in cluster.addresses.values():
        cluster.java.mqadmin("updateSubGroup", "-b", address, "-g", "ChangeOnlineGroup", "-r", "3")
    theirs = _settings(rmqctl, "ChangeOnlineGroup")
    assert {(each["consumeBroadcastEnable"], each["consumeFromMinEnable"]) for each in theirs.values()} == {
        (False, False)
    }
    undone = rmqctl("offset", "undo", receipt["id"], "--yes", "-o", "json")
    assert undone.exit_code == 0, undone.stderr
    # Only what that change had set goes back; what others have set since stays.
    assert _settings(rmqctl, "ChangeOnlineGroup") == {
        name: {**each, "retryMaxTimes": before[name]["retryMaxTimes"]} for name, each in theirs.items()
    }
    cluster.java.stop("change-online")


def test_a_broadcasting_group_still_broadcasts(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group = "ChangeBroadcast", "ChangeBroadcastGroup"
    cluster.create_topic(topic, queue_count=1)
    cluster.java.consume("change-broadcast", group, topic, broadcast=1)
    cluster.java.produce(topic, 10)
    cluster.java.wait_consumed("change-broadcast", 10)
    rmqctl.change("group", "update", group, "--retries", "3", "--retry-queues", "2")
    cluster.java.produce(topic, 10)
    cluster.java.wait_consumed("change-broadcast", 20)

    for address in cluster.addresses.values():
        cluster.java.mqadmin("updateSubGroup", "-b", address, "-g", group, "-r", "3")
    time.sleep(1)
    cluster.java.produce(topic, 10)
    time.sleep(_QUIET_S)
    stopped_at = _consumed(cluster, "change-broadcast")
    assert stopped_at < 30, "mqadmin is known to take the right to broadcast away"
    plan = rmqctl("group", "update", group, "--no-broadcast", "--retries", "4", "--dry-run")
    assert "BROKER" in plan.stdout
    rmqctl.change("group", "update", group, "--broadcast")
    cluster.java.wait_consumed("change-broadcast", 30)
    cluster.java.stop("change-broadcast")


def test_a_group_stands_still_and_goes_on(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group = "ChangeStill", "ChangeStillGroup"
    cluster.create_topic(topic, queue_count=1)
    cluster.java.consume("change-still", group, topic)
    cluster.java.produce(topic, 10)
    cluster.java.wait_consumed("change-still", 10)
    receipt = rmqctl.change("group", "update", group, "--no-consume")
    cluster.java.produce(topic, 10)
    time.sleep(_QUIET_S)
    assert _consumed(cluster, "change-still") == 10
    assert rmqctl("offset", "undo", receipt["id"], "--yes").exit_code == 0
    cluster.java.wait_consumed("change-still", 20)
    cluster.java.stop("change-still")


def test_a_new_group_is_what_brokers_would_make(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """What the plan says of every field is what the broker then shows, and what it gives a client's group."""
    cluster.create_topic("ChangeNew", queue_count=1)
    receipt = rmqctl.change("group", "create", "ChangeNewGroup")
    assert [item["target"] for item in receipt["items"]] == [item["after"] for item in receipt["items"]]
    cluster.java.consume("change-new", "ChangeNewOther", "ChangeNew")
    wait_until(lambda: rmqctl("group", "config", "ChangeNewOther").exit_code == 0, "the client's group")
    wait_until(lambda: all(_settings(rmqctl, "ChangeNewOther").values()), "it at both brokers")
    assert _settings(rmqctl, "ChangeNewOther") == _settings(rmqctl, "ChangeNewGroup")
    cluster.java.stop("change-new")
    rmqctl.change("group", "create", "ChangeNewThird", "--from", "ChangeNewGroup", "--retry-queues", "3")
    assert {each["retryQueueNums"] for each in _settings(rmqctl, "ChangeNewThird").values()} == {3}
    again = rmqctl("group", "create", "ChangeNewGroup", "--yes")
    assert (again.exit_code, again.stdout) == (0, "")
    refused = rmqctl("group", "create", "ChangeNewThird", "--yes")
    assert refused.exit_code == 1
    assert "retryQueueNums=3" in refused.stderr
    gone = rmqctl("offset", "undo", receipt["id"], "--yes")
    assert gone.exit_code == 0, gone.stderr
    assert rmqctl("group", "config", "ChangeNewGroup").exit_code == 5


def test_a_new_group_can_be_sent_somewhere_before_its_first_start(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group = "ChangeFirst", "ChangeFirstGroup"
    cluster.create_topic(topic, queue_count=1, brokers=("broker-a",))
    cluster.java.produce(topic, 10)
    rmqctl.change("group", "create", group, "--retries", "5")
    rmqctl.change("offset", "reset", group, "--topic", topic, "--to-offset", "4")
    cluster.java.consume("change-first", group, topic, collect=1)
    cluster.java.wait_consumed("change-first", 6)
    time.sleep(0.5)
    bodies = [each.body for each in cluster.java.attempts("change-first")]
    assert sorted(bodies) == [f"m{number}" for number in range(4, 10)]
    assert {each["retryMaxTimes"] for each in _settings(rmqctl, group).values()} == {5}
    cluster.java.stop("change-first")


@pytest.mark.since_5
def test_attributes_are_set_and_kept_and_taken_away(cluster: Cluster, rmqctl: Rmqctl) -> None:
    group = "ChangeAttributes"
    rmqctl.change("group", "create", group, "--set", "+priority.factor=10")
    rmqctl.change("group", "update", group, "--retries", "3")
    assert {each["attributes"]["priority.factor"] for each in _settings(rmqctl, group).values()} == {"10"}
    wrong = rmqctl("group", "update", group, "--set", "+priority.factor=1000", "--yes", "-o", "json")
    assert wrong.exit_code == 1
    assert {item["result"] for item in wrong.document["items"]} == {"UNCHANGED"}
    assert "not in range" in wrong.document["items"][0]["note"]
    receipt = rmqctl.change("group", "update", group, "--set", "-priority.factor", "--set", "retryQueueNums=2")
    assert {str(each["attributes"]) for each in _settings(rmqctl, group).values()} == {"{}"}
    assert rmqctl("offset", "undo", receipt["id"], "--yes").exit_code == 0
    for each in _settings(rmqctl, group).values():
        assert (each["attributes"], each["retryQueueNums"]) == ({"priority.factor": "10"}, 1)
    policy = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1000,"max":60000,"multiplier":3}}'
    rmqctl.change("group", "update", group, "--set", f"groupRetryPolicy={policy}")


def test_a_retry_topic_is_not_made_wider(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """What the plan warns of: messages that fail lie in queues that nobody reads."""
    topic, group = "ChangeNarrow", "ChangeNarrowGroup"
    cluster.create_topic(topic, queue_count=1, brokers=("broker-a",))
    cluster.java.consume("change-narrow", group, topic, fail="bad", collect=1)
    cluster.wait_for_route(f"%RETRY%{group}", 1)
    plan = rmqctl("group", "update", group, "--retry-queues", "8", "--dry-run", "-o", "json").document
    assert "RETRY_TOPIC_NARROW" in [each["code"] for each in plan["consequences"]]
    rmqctl.change("group", "update", group, "--retry-queues", "8")
    cluster.java.produce(topic, 24, prefix="bad")
    cluster.java.wait_started("change-narrow", 24)
    time.sleep(13)  # the first retry comes after 10 s
    retried = {each.body for each in cluster.java.attempts("change-narrow") if each.reconsume_times}
    assert len(retried) < 24, "the topic would have to be as wide as the group says by now"
    cluster.java.stop("change-narrow")


def test_a_group_with_members_does_not_go(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group = "ChangeEnd", "ChangeEndGroup"
    cluster.create_topic(topic, queue_count=1)
    cluster.java.produce(topic, 10)
    client_id = cluster.java.consume("change-end", group, topic)
    cluster.java.wait_consumed("change-end", 10)
    refused = rmqctl("group", "delete", group, "--with-offsets", "--yes")
    assert refused.exit_code == 1
    assert client_id in refused.stderr
    cluster.java.stop("change-end")
    rmqctl.change("group", "update", group, "--retries", "7")
    stored = _stored(rmqctl, group, topic)
    assert sum(filter(None, stored.values())) == 10

    if cluster.version == RELEASES[-1]:  # it would make the group again at once
        refused = rmqctl("group", "delete", group, "--yes")
        assert (refused.exit_code, "--with-offsets" in refused.stderr) == (1, True)
        assert {each["retryMaxTimes"] for each in _settings(rmqctl, group).values()} == {7}
    else:
        kept = rmqctl.change("group", "delete", group)
        assert {each["code"] for each in rmqctl(*_LEFT, group, *_DRY).document["consequences"]} >= {
            "OFFSETS_GO",
            "TOPICS_STAY",
        }
        assert _stored(rmqctl, group, topic) == stored
        assert rmqctl("offset", "undo", kept["id"], "--yes").exit_code == 0

    gone = rmqctl.change("group", "delete", group, "--with-offsets")
    assert rmqctl("group", "config", group).exit_code == 5
    back = rmqctl("offset", "undo", gone["id"], "--yes", "-o", "json")
    assert back.exit_code == 0, back.stderr or back.stdout
    assert _stored(rmqctl, group, topic) == stored
    assert {each["retryMaxTimes"] for each in _settings(rmqctl, group).values()} == {7}
    cluster.java.consume("change-end-2", group, topic, collect=1)
    cluster.java.produce(topic, 3, prefix="new")
    cluster.java.wait_consumed("change-end-2", 3)
    time.sleep(0.5)
    assert {each.body[:3] for each in cluster.java.attempts("change-end-2")} == {"new"}
    cluster.java.stop("change-end-2")


_LEFT, _DRY = ("group", "delete", "--with-offsets"), ("--dry-run", "-o", "json")


def test_offsets_that_are_left_of_a_group_go(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group = "ChangeLeft", "ChangeLeftGroup"
    cluster.create_topic(topic, queue_count=1)
    cluster.java.produce(topic, 10)
    cluster.java.consume("change-left", group, topic)
    cluster.java.wait_consumed("change-left", 10)
    cluster.java.stop("change-left")
    for address in cluster.addresses.values():
        printed = cluster.java.mqadmin("deleteSubGroup", "-b", address, "-g", group)
        assert "success" in printed
    left = rmqctl("group", "delete", group, "--yes")
    # 5.5 has made the group again, with the defaults.
    assert left.exit_code == (1 if cluster.version == RELEASES[-1] else 5)
    assert "--with-offsets" in left.stderr
    receipt = rmqctl.change("group", "delete", group, "--with-offsets")
    assert topic in {item.get("topic") for item in receipt["items"]}
    assert rmqctl("offset", "show", group).exit_code == 5


def test_what_has_changed_since_a_plan_is_drift(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    group, path = "ChangeDrift", tmp_path / "plan.json"
    rmqctl.change("group", "create", group)
    assert rmqctl("group", "update", group, "--retries", "3", "--plan", str(path)).exit_code == 0
    cluster.java.mqadmin("updateSubGroup", "-b", cluster.addresses["broker-b"], "-g", group, "-r", "9")
    stale = rmqctl("apply", str(path), "--yes")
    assert stale.exit_code == 7
    assert "broker-b had" in stale.stderr
    assert {each["retryMaxTimes"] for each in _settings(rmqctl, group).values()} == {16, 9}
