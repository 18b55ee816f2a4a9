"""Makes 1,000 groups with offsets on every broker of a cluster, through the protocol's own writes."""

from __future__ import annotations

import asyncio
import json
import sys

from rmqctl.client.link import Link
from rmqctl.net.clock import SystemClock
from rmqctl.net.stream import connect_tcp
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from tests.real.harness.cluster import Cluster

GROUP_COUNT = 1000
TOPIC_COUNT = 20
QUEUE_COUNT = 4


_WITHOUT_AGES = """
import sys
import rmqctl.admin.groups.ages as ages
from rmqctl.cli.app import run
ages._MOST_REQUESTS = 0
sys.exit(run(sys.argv[1:]))
"""


def without_ages(*words: str) -> list[str]:
    """Return the command that runs rmqctl asking for no ages of unread messages (TIME-LAG)."""
    return [sys.executable, "-c", _WITHOUT_AGES, *words]


def fill(cluster: Cluster) -> None:
    """Make the topics and groups; every group has offsets in one topic at every broker."""
    topics = [f"Many{number:02}" for number in range(TOPIC_COUNT)]
    for topic in topics:
        cluster.create_topic(topic, queue_count=QUEUE_COUNT)
        cluster.java.produce(topic, 100)
    asyncio.run(_fill([broker.address for broker in cluster.brokers.values()], topics))


async def _fill(addresses: list[str], topics: list[str]) -> None:
    clock = SystemClock()
    for address in addresses:
        link = Link(await connect_tcp(address, clock, 5), clock)
        for number in range(GROUP_COUNT):
            group = f"many-groups-{number:04}"
            config = json.dumps({"groupName": group, "retryQueueNums": 1}).encode()
            answer = await link.request(Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config), 10)
            assert answer.code == 0, answer.remark
            fields = {"consumerGroup": group, "topic": topics[number % len(topics)], "commitOffset": "3"}
            updates = [
                link.request(Command(RequestCode.UPDATE_CONSUMER_OFFSET, {**fields, "queueId": str(queue_id)}), 10)
                for queue_id in range(QUEUE_COUNT)
            ]
            assert all(done.code == 0 for done in await asyncio.gather(*updates))
        await link.aclose()
