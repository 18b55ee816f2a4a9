"""Dead letters replayed: each once, whatever kills the replay; and consumed by the group that is meant."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from rmqctl.admin.messages.returns import send_back
from rmqctl.client.core import Client
from rmqctl.model.plan import ReturnedMessage

from .harness.cluster import Cluster
from .harness.queue_tables import wait_until
from .harness.replay_kills import replay_through_kills, stored_count
from .harness.rmqctl import Rmqctl

_COUNT, _KILLS = 3_000, 5


pytestmark = pytest.mark.usefixtures("own_state")


def _make_dead(cluster: Cluster, name: str, topic: str, group: str, count: int) -> None:
    """Have a Java consumer give up so many messages."""
    cluster.create_topic(topic, queue_count=4)
    cluster.java.consume(name, group, topic, fail="bad", max=0, batch=1)
    cluster.java.produce(topic, count, batch=100, prefix="bad", tag="a")
    wait_until(lambda: stored_count(cluster, f"%DLQ%{group}") >= count, "the dead letters", timeout_s=120)
    cluster.java.stop(name)


def test_each_once_through_kills_where_a_naive_replay_doubles(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group, chance = "ReplayKilled", "ReplayKilledGroup", random.Random(cluster.version)
    _make_dead(cluster, "killed", topic, group, _COUNT)
    ids = Counter(item["msgId"] for item in rmqctl.items("dlq", "show", group, "--limit", "5000", "--body", "none"))
    # A message can be given up twice: then one of its dead letters is sent.
    words = ("dlq", "replay", group, "--rate", "400", "--yes")
    for is_naive in (False, True):
        target = f"Replayed{'Naive' if is_naive else ''}"
        cluster.create_topic(target, queue_count=4)
        last, killed_count = replay_through_kills(
            cluster, rmqctl, (*words, "--to-topic", target), target, _KILLS, chance, is_naive=is_naive
        )
        assert last.exit_code == 0, last.stderr
        found = rmqctl.items("message", "find", target, "--limit", "40000", "--body", "none")
        counts = Counter(item["msgId"] for item in found)
        assert counts.keys() == ids.keys()
        doubled = sum(count > 1 for count in counts.values())
        assert killed_count == _KILLS
        assert (doubled > 0) == is_naive, (doubled, killed_count)
    # The naive runs leave some in doubt: exit code 8.
    ledgers = rmqctl("dlq", "status", group, "-o", "json").document["items"]
    (ledger,) = [each for each in ledgers if not each["name"]]
    assert (ledger["sentCount"], ledger["inDoubtCount"], ledger["state"]) == (len(ids), 0, "DONE")
    assert len(ledger["runs"]) == _KILLS + 1
    again = rmqctl(*words, "--to-topic", "Replayed", "-o", "json")
    assert (again.exit_code, again.document["count"]) == (0, 0)


def test_the_retry_topic_is_consumed_by_the_group_alone_and_once(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group, java = "ReplayRetry", "ReplayRetryGroup", cluster.java
    _make_dead(cluster, "first", topic, group, 200)
    java.consume("good", group, topic, collect=1)
    java.consume("other", "ReplayRetryOther", topic, collect=1)
    java.wait_consumed("other", 200)
    planned = rmqctl("dlq", "replay", group, "--dry-run", "-o", "json").document
    assert (planned["count"], len(planned["sample"])) == (200, 5)
    assert rmqctl("dlq", "replay", group, "--yes").exit_code == 0
    java.wait_consumed("good", 200)
    assert rmqctl("dlq", "replay", group, "--yes").exit_code == 0
    read = java.read("good")
    assert Counter(each.topic for each in read) == {topic: 200}
    assert len({each.message_id for each in read}) == len(read) == 200
    assert {each.tags for each in read} == {"a"}
    assert all("RMQCTL_REPLAY" in each.properties for each in read)
    assert {each.reconsume_times for each in java.attempts("good")} == {0}
    assert len(java.attempts("other")) == 200
    java.stop("good")
    java.stop("other")


def test_a_message_that_became_a_dead_letter_twice(cluster: Cluster, rmqctl: Rmqctl) -> None:
    """By one delivery that was sent back twice, of which one is replayed; and by a replay that failed again."""
    topic, group, java = "ReplayTwice", "ReplayTwiceGroup", cluster.java
    cluster.create_topic(topic, queue_count=4)
    assert rmqctl("group", "create", group, "--yes").exit_code == 0
    java.produce(topic, 6, prefix="bad")
    assert rmqctl("offset", "reset", group, "--topic", topic, "--to-latest", "--yes").exit_code == 0
    sent = rmqctl.items("message", "find", topic)
    for item in (*sent, *sent):
        _give_up(cluster, group, item)
    wait_until(lambda: stored_count(cluster, f"%DLQ%{group}") == 12, "the dead letters")
    plan = rmqctl("dlq", "replay", group, "--dry-run", "-o", "json").document
    assert (plan["count"], plan["notSent"]) == (6, {"TWICE": 6})

    java.consume("bad", group, topic, fail="bad", max=0, heartbeat=30_000)
    replayed = rmqctl("dlq", "replay", group, "--yes", "-o", "json")
    assert (replayed.exit_code, replayed.document["summary"]["sentCount"]) == (0, 6)
    wait_until(lambda: stored_count(cluster, f"%DLQ%{group}") == 18, "the dead letters of the replay", timeout_s=120)
    java.stop("bad")
    plan = rmqctl("dlq", "replay", group, "--dry-run", "-o", "json").document
    assert (plan["count"], plan["againCount"]) == (6, 6)
    assert sum(plan["notSent"].values()) == 12
    words = ("dlq", "replay", group, "--ledger", "other", "--dry-run", "-o", "json")
    plan = rmqctl(*words).document
    assert (plan["count"], plan["notSent"]) == (6, {"DIED_AGAIN": 6, "TWICE": 6})

    java.consume("good", group, topic, collect=1)
    assert rmqctl("dlq", "replay", group, "--yes").exit_code == 0
    java.wait_consumed("good", 6)
    assert rmqctl("dlq", "replay", group, "--dry-run", "-o", "json").document["count"] == 0
    read = [each.message_id for each in java.read("good")]
    assert sorted(read) == sorted(item["msgId"] for item in sent)
    java.stop("good")


def test_a_sharding_key_returns_to_the_queue_of_javas_producer(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group, count = "ReplaySharded", "ReplayShardedGroup", 60
    cluster.create_topic(topic, queue_count=4)
    cluster.java.consume("sharded", group, topic, fail="bad", max=0, batch=1)
    cluster.java.produce(topic, count, shards=12, prefix="bad")
    wait_until(lambda: stored_count(cluster, f"%DLQ%{group}") >= count, "the dead letters", timeout_s=120)
    cluster.java.stop("sharded")
    first = {item["msgId"]: item for item in rmqctl.items("message", "find", topic, "--limit", "1000")}
    assert len({(item["brokerName"], item["queueId"]) for item in first.values()}) > 2
    assert rmqctl("dlq", "replay", group, "--to-origin", "--yes").exit_code == 0
    found = rmqctl.items("message", "find", topic, "--limit", "1000")
    copies = [item for item in found if "RMQCTL_REPLAY" in item["properties"]]
    assert {item["msgId"] for item in copies} == first.keys()
    for item in copies:
        sent = first[item["msgId"]]
        assert (item["brokerName"], item["queueId"]) == (sent["brokerName"], sent["queueId"])


def _give_up(cluster: Cluster, group: str, item: dict[str, Any]) -> None:
    """Send a message back as a consumer does that makes a dead letter of it."""

    async def ask() -> None:
        address = cluster.addresses[item["brokerName"]]
        message = ReturnedMessage(item["queueOffset"], item["commitLogOffset"], item["msgId"], item["topic"], 0)
        async with Client([cluster.namesrv]) as client:
            await send_back(
                client,
                address,
                item["brokerName"],
                group,
                message,
                delay_level=-1,
                max_reconsume_times=16,
                timeout_s=10,
            )

    asyncio.run(ask())


@pytest.mark.since_5
def test_an_orderly_member_makes_the_retry_topic_refused(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic, group, java = "ReplayOrderly", "ReplayOrderlyGroup", cluster.java
    _make_dead(cluster, "dead", topic, group, 10)
    java.consume("orderly", group, topic, orderly=1, collect=1)
    wait_until(lambda: len(java.queues("orderly", topic)) == 8, "the queues")
    refused = rmqctl("dlq", "replay", group, "--yes")
    assert refused.exit_code == 1, refused.stderr
    assert stored_count(cluster, f"%DLQ%{group}") == 10
    assert rmqctl("dlq", "replay", group, "--to-origin", "--yes").exit_code == 0
    java.wait_consumed("orderly", 10)
    java.stop("orderly")
