"""`watch` beside real brokers and a Java member: what it reads, and the verdicts when the member is gone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rmqctl.client.access import Access
from rmqctl.observe.fleet_activity import InFlight
from rmqctl.observe.fleet_sampler import FleetSampler
from tests.real.harness.conditions import wait_until
from tests.repetition import repeating

from .harness.cluster import Cluster
from .harness.rmqctl import Result, Rmqctl


def _items(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.smoke
def test_rounds_show_the_group_and_are_recorded(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    cluster.create_topic("WatchReads", queue_count=2)
    cluster.java.consume("watch-reads", "WatchReads", "WatchReads")
    cluster.java.produce("WatchReads", 40)
    cluster.java.wait_consumed("watch-reads", 40)
    cluster.java.persist("watch-reads")
    record = tmp_path / "groups.jsonl"
    words = ("WatchReads", "--every", "1s", "--window", "40s", "--rate", "20", "--rounds", "2", "--each-round")
    result = rmqctl("watch", *words, "--record", str(record), "-o", "jsonl")
    assert result.exit_code == 0, result.stderr
    item = _items(result)[-1]
    assert (item["health"], item["lag"], item["timeLagMs"], item["memberCount"]) == ("OK", 0, 0, 1)
    # Two queues on each broker, and the retry topic.
    assert item["queueCount"] >= 4
    (sample, _) = [json.loads(line) for line in record.read_text().splitlines()]
    owners = {owner["clientId"] for queue in sample["queues"] for owner in queue.get("owners", ())}
    assert len(owners) == 1
    assert owners == set(sample["clientIds"])
    cluster.java.stop("watch-reads")


@pytest.mark.timeout(300)
def test_a_group_whose_member_has_gone_stops(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    """The backlog that was there before is dated too, and one notification is sent."""
    topic, alerts = "WatchStops", tmp_path / "alerts.jsonl"
    cluster.create_topic(topic, queue_count=2)
    cluster.java.consume("watch-stops", topic, topic)
    cluster.java.produce(topic, 40)
    cluster.java.wait_consumed("watch-stops", 40)
    cluster.java.stop("watch-stops")
    wait_until(lambda: rmqctl("group", "list", "--where", f"group={topic}", "--where", "memberCount=0").stdout.strip())
    with repeating(lambda: cluster.java.produce(topic, 4), 1.0):
        words = (topic, "--every", "4s", "--window", "40s", "--rate", "20", "--for", "60s", "-o", "jsonl")
        result = rmqctl("watch", *words, "--notify", f"file:{alerts}")
    assert result.exit_code == 0, result.stderr
    last = _items(result)[-1]
    assert (last["health"], last["rule"], last["memberCount"]) == ("STOP", "NOBODY_COMMITS", 0)
    assert last["lag"] > 40
    assert last["timeLagMs"] is not None
    documents = [json.loads(line) for line in alerts.read_text().splitlines()]
    assert [item["alert"] for document in documents for item in document["items"]][:1] == ["OPENED"]
    assert len(documents) == 1 or documents[-1]["items"][0]["alert"] == "WORSENED"


def test_messages_in_flight_are_those_that_offset_show_reports(cluster: Cluster, rmqctl: Rmqctl) -> None:
    topic = "WatchFlight"
    cluster.create_topic(topic, queue_count=1)
    cluster.java.consume("watch-flight", topic, topic, stuck="m0")
    cluster.java.produce(topic, 40)
    is_old = cluster.version.startswith("4.")

    def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = rmqctl.items("offset", "show", topic, "--where", f"topic={topic}")
        return found

    def is_pulled() -> bool:
        """A queue that was not pulled yet has no known messages in flight."""
        found = rows()
        return any(row["lag"] for row in found) and (is_old or all(row["inflight"] is not None for row in found))

    wait_until(is_pulled)

    async def read() -> InFlight | None:
        async with await Access(name_servers=cluster.namesrv, timeout_s=60).connect(open_ended=True) as client:
            found = await FleetSampler(client, [topic], every_s=10, rate_per_s=20).sample()
            (activity,) = found.activities.values()
            return None if activity.in_flight is None else activity.in_flight[topic]

    in_flight = asyncio.run(read())
    found = rows()
    if is_old:
        assert in_flight is None
        assert {row["inflight"] for row in found} == {None}
    else:
        lag, inflight = (sum(row[name] for row in found) for name in ("lag", "inflight"))
        assert in_flight == InFlight(inflight, lag - inflight)
        assert inflight
    cluster.java.release("watch-flight")
    cluster.java.stop("watch-flight")
