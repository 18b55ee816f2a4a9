"""The offsets of a broadcasting consumer: Java's file is read here, and ours by Java's consumer."""

from __future__ import annotations

import asyncio

from rmqctl.consumer.offsets.local import LocalOffsets, encode_offsets, local_offsets_path, read_offsets
from rmqctl.model.queue import MessageQueue

from .harness.cluster import Cluster


def test_java_and_rmqctl_go_on_where_the_other_one_stopped(cluster: Cluster) -> None:
    cluster.create_topic("Broadcast", queue_count=2, brokers=("broker-a",))
    queues = [MessageQueue("Broadcast", "broker-a", number) for number in range(2)]
    for mq in queues:
        cluster.java.produce("Broadcast", 10, queue=f"broker-a:{mq.queue_id}", prefix=f"q{mq.queue_id}-")
    client_id = cluster.java.consume("wide", "BroadcastGroup", "Broadcast", broadcast=1)
    cluster.java.wait_consumed("wide", 20)
    cluster.java.stop("wide")

    path = local_offsets_path(client_id, "BroadcastGroup", cluster.folder / ".rocketmq_offsets")
    assert read_offsets(path) == dict.fromkeys(queues, 10)
    if cluster.version == "5.4.0":
        text, own = path.read_bytes(), encode_offsets(dict.fromkeys(queues, 10))
        assert sorted(text.replace(b"}:10,", b"}:10").splitlines()) == sorted(
            own.replace(b"}:10,", b"}:10").splitlines()
        )

    async def go_back() -> None:
        store = LocalOffsets(path)
        store.update(queues[0], 6, increase_only=False)
        assert await store.persist() == []

    asyncio.run(go_back())
    cluster.java.consume("wide-again", "BroadcastGroup", "Broadcast", broadcast=1, collect=1)
    cluster.java.wait_consumed("wide-again", 4)
    assert sorted(cluster.java.bodies("wide-again")) == [f"q0-{number}" for number in range(6, 10)]
    cluster.java.produce("Broadcast", 1, queue="broker-a:1", prefix="new-")
    cluster.java.wait_consumed("wide-again", 5)
    assert len(cluster.java.bodies("wide-again")) == 5
    cluster.java.stop("wide-again")
    assert read_offsets(path) == {queues[0]: 10, queues[1]: 11}
