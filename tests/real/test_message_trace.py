"""`message trace` of real producers and consumers, and `offset peek` of a real group."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl


def _trace(rmqctl: Rmqctl, *words: str, until: int, with_results: bool = False) -> list[dict[str, Any]]:
    """Return a trace once it has so many events (and their results): clients write both some seconds late."""
    give_up_at = time.monotonic() + 60
    while True:
        result = rmqctl("message", "trace", *words, "-o", "json")
        items: list[dict[str, Any]] = result.document["items"] if result.exit_code == 0 else []
        open_count = sum(item["result"] is None for item in items[:until]) if with_results else 0
        if len(items) >= until and not open_count:
            return items
        assert time.monotonic() < give_up_at, (result, items)
        time.sleep(0.3)


@pytest.mark.timeout(180)
def test_a_messages_way_is_shown_with_failures_and_retries(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Traced", queue_count=1, brokers=("broker-a",))
    unique_key, offset_id = cluster.java.produce("Traced", 2, tag="TagA", keys="traced-", trace=1).split("\t")
    cluster.java.consume("good", "GoodGroup", "Traced", trace=1)
    cluster.java.consume("bad", "BadGroup", "Traced", trace=1, fail="m1")
    cluster.java.wait_consumed("good", 2)

    # The retry comes 10 s after the failure.
    items = _trace(rmqctl, unique_key, until=4, with_results=True)
    cluster.java.stop("good")
    cluster.java.stop("bad")

    sent = items[0]
    assert (sent["event"], sent["group"], sent["topic"]) == ("PUBLISHED", "WORKBENCH_TRACED", "Traced")
    assert (sent["result"], sent["offsetMsgId"]) == ("SUCCESS", offset_id)
    assert sent["storeHost"] == cluster.brokers["broker-a"].address
    deliveries = [(item["group"], item["retryTimes"], item["result"]) for item in items if item["event"] == "DELIVERED"]
    assert sorted(deliveries)[:3] == [("BadGroup", 0, "FAILED"), ("BadGroup", 1, "FAILED"), ("GoodGroup", 0, "SUCCESS")]
    assert all(item["costTime"] >= 0 for item in items)
    assert {item["msgId"] for item in items} == {unique_key}

    # The broker's id leads to the same, and so does the key.
    assert _trace(rmqctl, offset_id, until=4)[0] == sent
    assert sent in _trace(rmqctl, "--key", "traced-1", until=4)
    assert rmqctl("message", "trace", unique_key, "--trace-topic", "NoTraces").exit_code == 5
    unknown = rmqctl("message", "trace", f"{unique_key[:-4]}FFFF")
    assert (unknown.exit_code, "enableMsgTrace=true" in unknown.stderr) == (5, True)


@pytest.mark.smoke
def test_a_message_is_followed_from_its_producer_to_its_consumer(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Followed", queue_count=1, brokers=("broker-a",))
    unique_key, offset_id = cluster.java.produce("Followed", 1, trace=1).split("\t")
    cluster.java.consume("followed", "FollowedGroup", "Followed", trace=1)
    cluster.java.wait_consumed("followed", 1)

    sent, delivered, *more = _trace(rmqctl, unique_key, until=2, with_results=True)
    cluster.java.stop("followed")

    assert (sent["event"], sent["result"], sent["offsetMsgId"]) == ("PUBLISHED", "SUCCESS", offset_id)
    assert (delivered["event"], delivered["group"], delivered["retryTimes"], delivered["result"]) == (
        "DELIVERED", "FollowedGroup", 0, "SUCCESS",
    )  # fmt: skip
    assert more == []


@pytest.mark.timeout(180)
def test_a_delivery_that_still_runs_has_no_result(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Running", queue_count=1, brokers=("broker-a",))
    unique_key, _ = cluster.java.produce("Running", 1, prefix="stuck").split("\t")
    cluster.java.consume("running", "RunningGroup", "Running", trace=1, stuck="stuck")
    cluster.java.wait_started("running", 1)

    result = _trace(rmqctl, unique_key, until=1)
    cluster.java.release("running")
    cluster.java.stop("running")

    assert [(item["event"], item["result"]) for item in result] == [("DELIVERED", None)]
    assert result[0]["reasons"]["result"] == "RUNNING_OR_LOST"


def test_peek_shows_what_a_group_gets_next(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Peeked", queue_count=2, brokers=("broker-a",))
    cluster.java.produce("Peeked", 20, queue="broker-a:0")
    cluster.java.consume("peeked", "PeekedGroup", "Peeked", stuck="m10")
    cluster.java.wait_consumed("peeked", 19)
    cluster.java.persist("peeked")

    def stored() -> int | None:
        offset: int | None = rmqctl.items("offset", "show", "PeekedGroup", "--topic", "Peeked")[0]["consumerOffset"]
        return offset

    wait_until(lambda: stored() == 10)

    words = ("offset", "peek", "PeekedGroup", "--topic", "Peeked", "--before", "1", "--after", "2")
    document = rmqctl(*words, "-o", "json").document
    (next_one,) = rmqctl.items(*words, "--queue", "broker-a:0", "--after", "0", "--before", "0")
    cluster.java.release("peeked")
    cluster.java.stop("peeked")

    shown = [(item["position"], item["queueOffset"], item["body"]) for item in document["items"]]
    assert shown == [("BEFORE", 9, "m9"), ("AT", 10, "m10"), ("AFTER", 11, "m11"), ("AFTER", 12, "m12")]
    assert document["queues"][0]["consumerOffset"] == 10
    assert (next_one["position"], next_one["body"]) == ("AT", "m10")
    assert rmqctl("offset", "peek", "PekedGroup", "--topic", "Peeked").exit_code == 5
