"""Resets of groups whose members are Go clients: what they do with it, and that nothing else is said of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.go import GoConsumer, missing_go
from .harness.rmqctl import Rmqctl

_Start = Callable[..., GoConsumer]


pytestmark = pytest.mark.usefixtures("own_state")


@pytest.fixture
def start(cluster: Cluster) -> Iterator[_Start]:
    """Start Go consumers that end with the test."""
    missing = missing_go()
    if missing is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    started: list[GoConsumer] = []

    def start_one(name: str, group: str, topic: str, **options: Any) -> GoConsumer:
        started.append(GoConsumer(cluster, name, group, topic, **options))
        return started[-1]

    yield start_one
    for consumer in started:
        consumer.kill()


def _reset(rmqctl: Rmqctl, group: str, topic: str, *words: str) -> tuple[int, dict[str, Any]]:
    result = rmqctl("offset", "reset", group, "--topic", topic, *words, "--yes", "-o", "json")
    return result.exit_code, result.document


def test_a_go_member_says_what_it_holds(cluster: Cluster, rmqctl: Rmqctl, start: _Start) -> None:
    cluster.create_topic("GoShow", queue_count=2)
    cluster.java.produce("GoShow", 40)
    consumer = start("go-show", "GoShowGroup", "GoShow")
    consumer.wait_consumed(40)
    (member,) = rmqctl.items("group", "members", "GoShowGroup")
    assert (member["language"], member["clientId"].endswith("@go-show")) == ("GO", True)
    # The retry topic has a queue at each broker, once Go has its route.
    assert member["queueCount"] in (4, 5, 6)
    (group,) = rmqctl.items("group", "describe", "GoShowGroup")
    assert (group["state"], group["consumeType"]) == ("ONLINE", "CONSUME_PASSIVELY")
    # It stores its offsets when it leaves, the first time 10 s after its start else. Where its share changed meanwhile
    # it stored the offset of one queue and forgot those of others: then they have none.
    consumer.stop()
    rows = rmqctl.items("offset", "show", "GoShowGroup", "--topic", "GoShow")
    assert len(rows) == 4
    said = {(row["consumerOffset"], row["lag"]) for row in rows}
    assert (10, 0) in said
    assert said <= {(10, 0), (None, None)}


@pytest.mark.parametrize("orderly", [False, True])
def test_a_go_group_at_work_is_sent_back(orderly: bool, cluster: Cluster, rmqctl: Rmqctl, start: _Start) -> None:
    topic, group, count = f"GoBack{orderly}", f"GoBackGroup{orderly}", 20_000
    cluster.create_topic(topic, queue_count=1, brokers=("broker-a",))
    cluster.java.produce(topic, count, batch=100)
    # Slowly enough to be seen between the target and where it was: nothing else shows that a Go client went there.
    # It stores its offset every 5 s, so what it goes over again must take longer than that.
    consumer = start(group, group, topic, orderly=orderly, pause_ms=8)
    consumer.wait_consumed(1500)
    exit_code, receipt = _reset(rmqctl, group, topic, "--to-offset", "100")
    assert receipt["route"] == ("CLIENT_PUSH" if cluster.version == "4.9.7" else "SERVER_SIDE")
    (item,) = receipt["items"]
    assert (exit_code, item["result"]) == (0, "CONFIRMED"), item
    # Where its queue is stored and nobody holds it, it takes it when members share next.
    consumer.wait_consumed(len(consumer.consumed()) + 100)
    offsets = [each.queue_offset for each in consumer.consumed()]
    (turn,) = (index for index in range(1, len(offsets)) if offsets[index] < offsets[index - 1])
    assert offsets[:turn] == list(range(turn))
    assert offsets[turn:] == list(range(100, 100 + len(offsets) - turn))


@pytest.mark.since_5
def test_what_go_members_lose_is_not_called_done(cluster: Cluster, rmqctl: Rmqctl, start: _Start) -> None:
    # The Go client stores the offset of one queue and forgets those of all others: where several queues are sent
    # somewhere at once, some never learn of it.
    topic, group, queue_count = "GoMany", "GoManyGroup", 16
    cluster.create_topic(topic, queue_count=queue_count)
    # A batch goes to one queue, the next one to the next.
    cluster.java.produce(topic, 2 * queue_count * 10, batch=10)
    consumer = start(group, group, topic, workers=20)
    consumer.wait_consumed(2 * queue_count * 10)
    known = len(consumer.consumed())
    exit_code, receipt = _reset(rmqctl, group, topic, "--to-offset", "7")
    assert exit_code in (0, 8, 9)
    said = {(item["brokerName"], item["queueId"]): item["result"] for item in receipt["items"]}
    assert len(said) == 2 * queue_count
    done = {queue for queue, result in said.items() if result == "CONFIRMED"}

    def again() -> set[tuple[str, int]]:
        """Return the queues whose messages from 7 on were all given out again; some wait for a worker."""
        times = Counter((each.broker_name, each.queue_id) for each in consumer.consumed()[known:])
        return {queue for queue, count in times.items() if count == 3}

    wait_until(lambda: done <= again(), why=lambda: done - again())
