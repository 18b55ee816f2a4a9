"""`message send` and a consumer's send-back, read by Java's own consumers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rmqctl.client.core import Client
from rmqctl.consumer.send_back import SendBackRequests
from rmqctl.model.queue import MessageQueue
from rmqctl.producer.producer import Producer
from rmqctl.protocol import headers
from rmqctl.protocol.message import StoredMessage, iter_messages

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl
from .harness.workbench import ReadMessage

# What brokers and Java's client add to what was sent.
_ADDED = {
    "CLUSTER",
    "MSG_REGION",
    "TRACE_ON",
    "MIN_OFFSET",
    "MAX_OFFSET",
    "CONSUME_START_TIME",
    "REAL_TOPIC",
    "REAL_QID",
}


def _own(message: ReadMessage) -> dict[str, str]:
    return {name: value for name, value in message.properties.items() if name not in _ADDED}


def _wait_held(cluster: Cluster, consumer_id: str, topic: str) -> None:
    """Wait until a consumer holds queues of a topic; left alone it may look only every 20 s."""
    give_up_at = time.monotonic() + 60
    while not cluster.java.queues(consumer_id, topic):
        assert time.monotonic() < give_up_at, f"{consumer_id} holds nothing of {topic}"
        cluster.java.call("rebalance", id=consumer_id)
        time.sleep(0.1)


@pytest.mark.smoke
def test_java_reads_keys_tags_properties_and_bodies_as_they_were_sent(
    cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path
) -> None:
    cluster.create_topic("SentByUs", queue_count=2)
    large = tmp_path / "large"
    large.write_text("L" * 6_000)
    lines = tmp_path / "lines"
    lines.write_text("".join(f"line{number}\n" for number in range(20)))
    (item,) = rmqctl.items("message", "send", "SentByUs", "Grüße", "--key", "k1", "--key", "k2", "--tag", "TagA",
                           "--property", "region=EU")  # fmt: skip
    rmqctl.items("message", "send", "SentByUs", "--file", str(large), "--tag", "TagA")
    batch = rmqctl.items("message", "send", "SentByUs", "--file", str(lines), "--lines", "--tag", "TagA", "--key", "b")
    rmqctl.items("message", "send", "SentByUs", "other tag", "--tag", "TagB", "--count", "3")

    cluster.java.consume("sent", "SentGroup", "SentByUs", expr="TagA", collect=1)
    _wait_held(cluster, "sent", "SentByUs")
    cluster.java.wait_consumed("sent", 22)
    bodies = cluster.java.bodies("sent")
    read = {message.message_id: message for message in cluster.java.read("sent")}
    cluster.java.stop("sent")

    assert sorted(bodies) == sorted(["Grüße", "L" * 6_000, *(f"line{number}" for number in range(20))])
    first = read[item["msgId"]]
    assert (first.topic, first.tags, first.keys) == ("SentByUs", "TagA", "k1 k2")
    expected = {"UNIQ_KEY": item["msgId"], "KEYS": "k1 k2", "TAGS": "TagA", "region": "EU"}
    # 4.9 does not store WAIT where it is true.
    assert _own(first) | {"WAIT": "true"} == {**expected, "WAIT": "true"}
    assert {each["msgId"] for each in batch} <= set(read)
    (by_id,) = rmqctl.items("message", "get", batch[7]["offsetMsgId"])
    assert (by_id["body"], by_id["msgId"]) == ("line7", batch[7]["msgId"])
    assert len({(each["brokerName"], each["queueId"]) for each in batch}) == 1


def test_a_level_delays_a_message_until_java_gets_it(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("SentLater", queue_count=1, brokers=("broker-a",))
    cluster.java.consume("later", "LaterGroup", "SentLater", collect=1)
    _wait_held(cluster, "later", "SentLater")
    rmqctl.items("message", "send", "SentLater", "now")
    (item,) = rmqctl.items("message", "send", "SentLater", "5 s", "--delay-level", "2")
    assert (item["queueOffset"], item["reasons"]["queueOffset"]) == (None, "DELAYED")
    timed = rmqctl("message", "send", "SentLater", "6 s", "--delay", "6s", "-o", "json")
    count = 3 if timed.exit_code == 0 else 2
    cluster.java.wait_consumed("later", count)
    ages_ms = {attempt.body: attempt.age_ms for attempt in cluster.java.attempts("later")}
    read = {message.message_id: message for message in cluster.java.read("later")}
    cluster.java.stop("later")

    assert ages_ms["now"] < 4_000 < 4_900 <= ages_ms["5 s"] < 15_000
    assert (_own(read[item["msgId"]])["DELAY"], read[item["msgId"]].topic) == ("2", "SentLater")
    if cluster.version == "4.9.7":
        assert (timed.exit_code, "4.9.7, which supports only delay levels" in timed.stderr) == (1, True)
    else:
        assert 5_000 <= ages_ms["6 s"] < 16_000
        assert timed.document["items"][0]["recallHandle"]


def test_what_brokers_refuse_is_told(cluster: Cluster, rmqctl: Rmqctl, tmp_path: Path) -> None:
    cluster.create_topic("SentClosed", queue_count=1, brokers=("broker-a",))
    refused = rmqctl("message", "send", "SentClosed", "x", "--delay", "20d", "-o", "json")
    assert refused.exit_code == 1
    assert rmqctl("message", "send", "SentClosde", "x").exit_code == 5
    # As much as goes into a batch: a broker of 4.9 that has to store more is broken by it.
    (tmp_path / "line").write_text("line\n")
    words = ("message", "send", "SentClosed", "--file", str(tmp_path / "line"), "--lines", "--queue", "broker-a:0")
    (largest,) = rmqctl.items(*words, "--property", f"p={'v' * 31_600}")
    assert rmqctl("message", "send", "SentClosed", "x", "--property", f"p={'v' * 32_000}").exit_code == 2
    (after,) = rmqctl.items("message", "send", "SentClosed", "x", "--queue", "broker-a:0")
    found = {each["msgId"] for each in rmqctl.items("message", "find", "SentClosed")}
    assert found == {largest["msgId"], after["msgId"]}
    cluster.java.mqadmin("updateTopicPerm", "-b", cluster.addresses["broker-a"], "-t", "SentClosed", "-p", "4")
    give_up_at = time.monotonic() + 60
    while (closed := rmqctl("message", "send", "SentClosed", "x", "-o", "json")).exit_code == 0:
        assert time.monotonic() < give_up_at
        time.sleep(0.2)
    assert closed.exit_code in (1, 4)


async def _pull(client: Client, address: str, mq: MessageQueue, offset: int) -> StoredMessage:
    """Read one message that a broker has stored, and may still have to enter in its queue."""
    until_s = time.monotonic() + 60
    while True:
        command = headers.pull_without_trace(mq.topic, mq.queue_id, offset)
        answer = await client.ask(address, command, accept=(0, 19, 20, 21))
        if answer.code == 0:
            return next(iter_messages(answer.body))
        assert time.monotonic() < until_s
        await asyncio.sleep(0.05)


def _back(cluster: Cluster, group: str, work: Callable[[SendBackRequests, StoredMessage], Awaitable[None]]) -> None:
    """Send a message and give it back for a group, as a consumer that failed."""

    async def go() -> None:
        async with Client([cluster.namesrv], timeout_s=15, open_ended=True) as client:
            producer = Producer(client, "CLIENT_INNER_PRODUCER")
            result = await producer.send("SentBack", group.encode(), keys=["k"], tag="TagA", properties={"p": "v"})
            message = await _pull(client, cluster.addresses["broker-a"], result.mq, result.queue_offset)
            await work(SendBackRequests(client, group, producer), message)

    asyncio.run(go())


def test_java_gets_what_was_sent_back_either_way(cluster: Cluster) -> None:
    cluster.create_topic("SentBack", queue_count=1, brokers=("broker-a",))
    # Only the retry topic of each group has anything for it: it begins at the end of the other.
    for group in ("BackByBroker", "BackByUs"):
        cluster.java.consume(group, group, "SentBack", expr="Nothing", collect=1)
        cluster.wait_for_route(f"%RETRY%{group}", 1)
        _wait_held(cluster, group, f"%RETRY%{group}")

    async def by_broker(send_back: SendBackRequests, message: StoredMessage) -> None:
        await send_back(message, 1)
        assert send_back.fallback_count == 0

    async def by_us(send_back: SendBackRequests, message: StoredMessage) -> None:
        # No such place in the broker's log: it refuses, and a new message takes the other way.
        record = message.record
        place = (message.commit_log_offset + 2**40).to_bytes(8, "big")
        await send_back(StoredMessage.decode(record[:28] + place + record[36:]), 0)
        assert send_back.fallback_count == 1

    _back(cluster, "BackByBroker", by_broker)
    _back(cluster, "BackByUs", by_us)
    for group, wait_ms in (("BackByBroker", 900), ("BackByUs", 9_900)):
        cluster.java.wait_consumed(group, 1)
        (attempt,) = cluster.java.attempts(group)
        (read,) = cluster.java.read(group)
        assert (attempt.body, attempt.reconsume_times, read.topic) == (group, 1, "SentBack")
        assert attempt.age_ms >= wait_ms
        assert (read.keys, read.tags, read.properties["p"]) == ("k", "TagA", "v")
        cluster.java.stop(group)
