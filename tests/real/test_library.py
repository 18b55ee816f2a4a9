"""Programs with the library, beside Java: two consumers on one client until a signal ends them, and a producer."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rmqctl.client import Client
from rmqctl.consumer import (
    Batch,
    ConsumeFromWhere,
    ConsumerSettings,
    ConsumeStatus,
    MessageQueue,
    PushConsumer,
    RebalanceListener,
    StoredMessage,
)
from rmqctl.producer import Producer, SendStatus, make_message
from tests.real.harness.conditions import wait_until

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl

_PROGRAM = """
import asyncio, logging, sys
from rmqctl.client import Client
from rmqctl.consumer import ConsumeFromWhere, ConsumerSettings, PushConsumer

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
FIRST = ConsumerSettings(consume_from=ConsumeFromWhere.FIRST_OFFSET)

def plain(messages, batch):
    return "CONSUME_SUCCESS"

async def failing(messages, batch):
    return "CONSUME_SUCCESS" if messages[0].reconsume_times else {}["id"]

async def main():
    async with Client(sys.argv[1]) as client:
        second = PushConsumer(client, group="lib-two", topics=["lib"], listener=failing, settings=FIRST)
        async with PushConsumer(client, group="lib-one", topics=["lib"], listener=plain, settings=FIRST):
            print("left", await second.serve(), flush=True)

asyncio.run(main())
"""


def test_two_consumers_share_a_client_and_end_at_a_signal(cluster: Cluster, tmp_path: Path) -> None:
    rmqctl = Rmqctl(cluster.namesrv)
    cluster.create_topic("lib")
    cluster.java.produce("lib", 200)
    log = tmp_path / "log"
    with log.open("w") as out:
        program = subprocess.Popen([sys.executable, "-c", _PROGRAM, cluster.namesrv], stdout=out, stderr=out)
    try:

        def has_consumed(group: str) -> bool:
            if rmqctl("offset", "show", group, "-o", "json").exit_code != 0:
                return False
            lags = [item["lag"] for item in rmqctl.items("offset", "show", group) if item["topic"] == "lib"]
            return bool(lags) and set(lags) == {0}

        for group in ("lib-one", "lib-two"):
            wait_until(lambda group=group: has_consumed(group), 60, why=log.read_text)
        cluster.java.consume("beside", "lib-two", "lib", collect=1, instance="beside")
        # Each is asked for its own group, over one connection.
        for group, count in (("lib-one", 1), ("lib-two", 2)):

            def members(group: str = group) -> list[bool]:
                return [item["queues"] is not None for item in rmqctl.items("group", "members", group)]

            wait_until(lambda count=count, members=members: members() == [True] * count, 60, why=log.read_text)
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 0
    finally:
        program.kill()
        program.wait()
    said = log.read_text()
    assert "left []" in said
    assert "WARNING rmqctl.consumer lib-two: lib@" in said
    assert "KeyError: 'id'" in said
    assert "Traceback" in said
    assert "lib-one: left; 200 messages consumed, 0 failed." in said


def test_a_sharding_key_has_the_queue_that_java_chooses_and_all_kinds_of_sends_arrive(cluster: Cluster) -> None:
    cluster.create_topic("produced")
    cluster.java.produce("produced", 80, shards=8, prefix="java-")
    found: dict[bytes, tuple[str, str]] = {}
    queues: defaultdict[str, set[str]] = defaultdict(set)

    async def go() -> None:
        news = asyncio.Event()

        async def consume(messages: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus:
            for message in messages:
                key = message.properties.get("__SHARDINGKEY", "")
                found[message.body] = (key, str(batch.mq))
                queues[key].add(str(batch.mq))
            news.set()
            return ConsumeStatus.CONSUME_SUCCESS

        async with Client(cluster.namesrv) as client, Producer(client) as producer:
            tasks = [
                await producer.submit("produced", f"ours-{number}".encode(), sharding_key=f"shard-{number % 8}")
                for number in range(80)
            ]
            assert {(await task).status for task in tasks} == {SendStatus.SEND_OK}
            batch = [make_message(b"batch-%d" % number, tag="T", keys=[f"k{number}"]) for number in range(10)]
            assert [len(part) async for part in producer.send_batches("produced", batch)] == [10]
            await producer.send("produced", b"later", delay_level=1)
            settings = ConsumerSettings(consume_from=ConsumeFromWhere.FIRST_OFFSET)
            consumer = PushConsumer(client, group="produced", topics=["produced"], listener=consume, settings=settings)
            async with asyncio.timeout(60), consumer:
                while len(found) < 171:
                    await news.wait()
                    news.clear()

    asyncio.run(go())
    assert b"later" in found
    assert {key: len(where) for key, where in queues.items() if key} == {f"shard-{number}": 1 for number in range(8)}


class _Events(RebalanceListener):
    """What happened, in order: queues of the topic that came and went, batches that began and ended."""

    def __init__(self) -> None:
        self.all: list[tuple[str, MessageQueue]] = []
        self.news = asyncio.Event()

    def note(self, what: str, mqs: Iterable[MessageQueue]) -> None:
        self.all += [(what, mq) for mq in mqs if mq.topic == "moves"]
        self.news.set()

    def of(self, mq: MessageQueue) -> list[str]:
        return [what for what, each in self.all if each == mq]

    async def assigned(self, starts: Mapping[MessageQueue, int]) -> None:
        await asyncio.sleep(0.5)
        self.note("assigned", starts)

    async def revoked(self, mqs: Sequence[MessageQueue]) -> None:
        self.note("revoked", mqs)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(90):
            while not is_so():
                self.news.clear()
                await self.news.wait()


def test_queues_are_prepared_finished_paused_and_moved_beside_a_java_member(cluster: Cluster) -> None:
    cluster.create_topic("moves", queue_count=1)
    going, staying = (MessageQueue("moves", name, 0) for name in ("broker-a", "broker-b"))
    for mq in (going, staying):
        cluster.java.produce("moves", 20, queue=f"{mq.broker_name}:0", prefix=f"{mq.broker_name}-")
    bodies: list[str] = []

    async def go() -> None:
        events, gate = _Events(), asyncio.Event()

        async def consume(messages: Sequence[StoredMessage], batch: Batch) -> ConsumeStatus:
            events.note("begins", [batch.mq])
            await gate.wait()
            bodies.extend(message.body.decode() for message in messages)
            events.note("ends", [batch.mq])
            return ConsumeStatus.CONSUME_SUCCESS

        settings = ConsumerSettings(
            consume_from=ConsumeFromWhere.FIRST_OFFSET, instance_name="zz", batch_size=10, revoke_wait_s=60
        )
        consumer = PushConsumer(
            cluster.namesrv, group="moves", topics=["moves"], listener=consume, settings=settings,
            rebalance_listener=events,
        )  # fmt: skip
        async with consumer:
            work = ["assigned", "begins", "begins"]
            await events.until(lambda: events.of(going) == events.of(staying) == work)
            # Its id is smaller, so it gets the first queue, which goes once its batches have ended.
            await asyncio.to_thread(cluster.java.consume, "0", "moves", "moves", collect=1, instance="0")
            await asyncio.to_thread(cluster.java.wait_consumed, "0", 20)
            assert events.of(going) == work
            gate.set()
            await events.until(lambda: events.of(going) == [*work, "ends", "ends", "revoked"])
            consumer.pause(staying)
            await asyncio.to_thread(cluster.java.produce, "moves", 5, queue="broker-b:0", prefix="late-")
            # What was consumed here comes once more, once the queue is not paused any more.
            assert await consumer.seek(staying, 10) == 10
            await asyncio.sleep(20)
            (queue,) = [queue for queue in consumer.health().queues if queue.mq.topic == "moves"]
            assert (queue.mq, queue.is_paused, queue.offset, len(bodies)) == (staying, True, 10, 40)
            assert consumer.health().is_member
            consumer.resume(staying)
            await events.until(lambda: len(bodies) == 55)
        assert events.all[-1] == ("revoked", staying)

    asyncio.run(go())
    assert {body for body in bodies if bodies.count(body) == 2} == {f"broker-b-{number}" for number in range(10, 20)}
    offsets = Rmqctl(cluster.namesrv).items("offset", "show", "moves")
    assert {item["brokerName"]: item["consumerOffset"] for item in offsets if item["topic"] == "moves"} == {
        "broker-a": 20, "broker-b": 25
    }  # fmt: skip
