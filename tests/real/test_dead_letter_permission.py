"""A write-only dead-letter topic, as brokers up to 4.9.1 make it, is opened for readers and closed again."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.java_json import loads

from .harness.cluster import Cluster
from .harness.queue_tables import wait_until
from .harness.rmqctl import Rmqctl

GROUP = "ClosedDeadLetters"
TOPIC = f"%DLQ%{GROUP}"


pytestmark = pytest.mark.usefixtures("own_state")


def _create(cluster: Cluster, broker_name: str, perm: int) -> None:
    more: dict[str, Any] = {"attributes": "+message.type=NORMAL"} if cluster.version.startswith("5") else {}
    with closing(cluster.asker(broker_name)) as asker:
        answer = asker(
            "broker", RequestCode.UPDATE_AND_CREATE_TOPIC, topic=TOPIC, defaultTopic="TBW102", perm=perm,
            readQueueNums=3, writeQueueNums=2, topicFilterType="MULTI_TAG", topicSysFlag=1,
            order=cluster.version.startswith("5"), **more,
        )  # fmt: skip
    assert answer is not None
    assert answer.code == 0, answer


def _seen(cluster: Cluster, rmqctl: Rmqctl) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return broker-a's configuration, what mqadmin shows of its route, and how many messages can be read."""
    document = rmqctl("topic", "status", TOPIC, "-o", "json").document
    (config,) = [item["config"] for item in document["brokers"] if item["brokerName"] == "broker-a"]
    route = loads(cluster.java.mqadmin("topicRoute", "-t", TOPIC).encode())
    (in_route,) = [data for data in route["queueDatas"] if data["brokerName"] == "broker-a"]
    return config, in_route, rmqctl("message", "find", TOPIC, "-o", "json").document["readCount"]


def test_a_write_only_topic_is_opened_and_closed(cluster: Cluster, rmqctl: Rmqctl) -> None:
    _create(cluster, "broker-a", 2)
    _create(cluster, "broker-b", 6)
    cluster.wait_for_route(TOPIC, 2)
    cluster.java.produce(TOPIC, 20)
    config, route, count = _seen(cluster, rmqctl)
    assert (config["perm"], route["perm"]) == (2, 2)
    assert 0 < count < 20

    fixed = rmqctl("dlq", "show", GROUP, "--fix-permission", "--yes", "-o", "json")
    assert fixed.exit_code == 0, fixed.stderr
    receipt = fixed.document
    (item,) = receipt["items"]
    assert (item["brokerName"], item["result"]) == ("broker-a", "CONFIRMED")
    assert item["after"] == item["target"] == {**item["before"], "perm": 6}
    kept = {"readQueueNums": 3, "writeQueueNums": 2, "topicFilterType": "MULTI_TAG", "topicSysFlag": 1}
    if cluster.version.startswith("5"):
        kept |= {"order": True, "attributes": {"message.type": "NORMAL"}}
    assert kept.items() <= item["after"].items()
    opened = {**config, "perm": 6}, {**route, "perm": 6}, 20
    wait_until(lambda: _seen(cluster, rmqctl) == opened, "the opened topic in mqadmin's route")

    assert rmqctl("dlq", "show", GROUP, "--fix-permission", "--yes", "-o", "json").document["items"] == []
    undone = rmqctl("offset", "undo", receipt["id"], "--yes", "-o", "json")
    assert undone.exit_code == 0, undone.stderr
    (back,) = undone.document["items"]
    assert (back["result"], back["after"]) == ("CONFIRMED", item["before"])
    wait_until(lambda: _seen(cluster, rmqctl) == (config, route, count), "the closed topic in mqadmin's route")
