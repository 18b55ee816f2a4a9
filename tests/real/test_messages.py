"""Messages that real brokers store, read and decoded."""

from __future__ import annotations

import asyncio
import time

from rmqctl.admin.messages.pull import pull_queue
from rmqctl.client.core import Client
from rmqctl.model.queue import MessageQueue
from rmqctl.protocol.flags import MessageFlag
from rmqctl.protocol.message import StoredMessage

from .harness.cluster import Cluster


def _pull(cluster: Cluster, topic: str, first_offset: int, end_offset: int) -> list[StoredMessage]:
    async def scenario() -> list[StoredMessage]:
        address = cluster.brokers["broker-a"].address
        async with Client([cluster.namesrv]) as client:
            queue = MessageQueue(topic, "broker-a", 0)
            return [
                m async for messages in pull_queue(client, address, queue, first_offset, end_offset) for m in messages
            ]

    return asyncio.run(scenario())


def _wait_until_readable(cluster: Cluster, topic: str, count: int) -> None:
    """A broker acknowledges a message a moment before it can be read (its consume queue is written after it)."""
    give_up_at = time.monotonic() + 60
    while len(_pull(cluster, topic, 0, count)) < count:
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def test_a_range_of_a_queue_is_read_exactly(cluster: Cluster) -> None:
    cluster.create_topic("Read", queue_count=1, brokers=("broker-a",))
    cluster.java.produce("Read", 100, queue="broker-a:0", tag="TagA", keys="k")
    _wait_until_readable(cluster, "Read", 100)

    messages = _pull(cluster, "Read", 10, 60)

    assert [message.queue_offset for message in messages] == list(range(10, 60))
    assert [message.body for message in messages] == [f"m{number}".encode() for number in range(10, 60)]
    assert all(message.body_crc_ok for message in messages)
    assert (messages[0].topic, messages[0].tags, messages[0].properties["KEYS"]) == ("Read", "TagA", "k10")
    assert messages[0].store_host == cluster.brokers["broker-a"].address
    assert len(_pull(cluster, "Read", 0, 1000)) == 100
    assert _pull(cluster, "Read", 500, 1000) == []


def test_a_body_that_java_compressed_is_read(cluster: Cluster) -> None:
    cluster.create_topic("Compressed", queue_count=1, brokers=("broker-a",))
    cluster.java.produce("Compressed", 1, size=100_000, queue="broker-a:0")
    _wait_until_readable(cluster, "Compressed", 1)

    (message,) = _pull(cluster, "Compressed", 0, 1)

    assert message.sys_flag & MessageFlag.COMPRESSED
    assert len(message.stored_body) < 10_000
    assert message.body == b"m0" + b"." * 99_998
    assert message.body_crc_ok
