"""Masters with slaves: a slave answers for a master that is gone, and the answer says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqctl.client.core import Client
from rmqctl.protocol import bodies, headers

from .harness.cluster import Cluster
from .harness.jars import VERSIONS
from .harness.rmqctl import Rmqctl


@pytest.fixture(params=VERSIONS)
def replicated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(request.param, tmp_path / "home", broker_count=1, with_slaves=True)
    try:
        yield cluster.wait()
    finally:
        cluster.stop()


async def _wait_until_copied(cluster: Cluster, group: str, message_count: int) -> None:
    """Wait until the slave has the topic, the messages and the offsets; it fetches them every ten seconds."""
    address = cluster.slaves["broker-a"].address
    give_up_at = time.monotonic() + 90
    async with Client([cluster.namesrv], timeout_s=120) as client:
        while time.monotonic() < give_up_at:
            answer = await client.ask(address, headers.get_consume_stats(group))
            queues = bodies.decode_consume_stats(answer.body).queues.values()
            if sum(min(queue.broker_offset, queue.consumer_offset) for queue in queues) == message_count:
                return
            await asyncio.sleep(0.2)
    raise AssertionError(f"the slave has not copied all: {answer.body!r}")


def test_a_slave_answers_for_a_silent_master(replicated: Cluster) -> None:
    rmqctl = Rmqctl(replicated.namesrv)
    replicated.create_topic("Copied", queue_count=2)
    replicated.java.produce("Copied", 20)
    replicated.java.consume("copied", "CopiedGroup", "Copied")
    replicated.java.wait_consumed("copied", 20)
    replicated.java.stop("copied")
    roles = [(item["brokerId"], item["role"]) for item in rmqctl.items("cluster", "list")]
    before = rmqctl("offset", "show", "CopiedGroup", "--topic", "Copied", "-o", "json")
    asyncio.run(_wait_until_copied(replicated, "CopiedGroup", 20))

    master = replicated.brokers["broker-a"].java
    assert master is not None
    master.pause()
    result = rmqctl("offset", "show", "CopiedGroup", "--topic", "Copied", "--timeout", "6s")
    master.resume()

    assert roles == [(0, "master"), (1, "slave")]
    assert "slave" not in before.stderr
    assert result.exit_code == 8, result.stderr
    assert "broker-a: master, its slave answered" in result.stderr
    assert [line.split()[:5] for line in result.stdout.splitlines()[1:]] == [
        ["Copied", "broker-a", str(item["queueId"]), "10", "10"] for item in before.document["items"]
    ]
