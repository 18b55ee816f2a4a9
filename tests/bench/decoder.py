"""Decoding messages of 1 KiB, and a pull loop over 8 queues beside a bare asyncio loop with the same light decoding."""

from __future__ import annotations

import asyncio
import json
import struct
import time

from rmqctl.client.core import Client
from rmqctl.protocol import headers
from rmqctl.protocol.message import iter_messages
from tests.bench.measure import median
from tests.bench.pull_rate import QUEUE_COUNT, pull_rate
from tests.real.harness.cluster import Cluster

TOPIC = "Bench1KiB"
MESSAGE_COUNT = 200_000


def fill(cluster: Cluster) -> str:
    """Store the messages on one broker, evenly over 8 queues; return the broker's address."""
    cluster.create_topic(TOPIC, queue_count=QUEUE_COUNT, brokers=("broker-a",))
    for queue_id in range(QUEUE_COUNT):
        cluster.java.produce(TOPIC, MESSAGE_COUNT // QUEUE_COUNT, size=1024, queue=f"broker-a:{queue_id}", batch=100)
    return cluster.brokers["broker-a"].address


async def decoding_rate(namesrv: str, address: str) -> float:
    """Return messages decoded a second in one core: fixed fields read; topic, properties, body and CRC lazy."""
    async with Client([namesrv], timeout_s=60) as client:
        answer = await client.ask(address, headers.pull_without_trace(TOPIC, 0, 0))
    body = answer.body
    count = len(list(iter_messages(body)))
    rates = []
    for _ in range(7):
        started = time.perf_counter()
        total = 0
        for _ in range(2000):
            for message in iter_messages(body):
                total += message.queue_offset
        rates.append(2000 * count / (time.perf_counter() - started))
    return median(rates)


async def pull_rates(namesrv: str, address: str) -> tuple[float, float]:
    """Return messages a second of our pull loop and of the bare one, medians of runs in turn."""
    ours, bare = [], []
    for number in range(6):
        a, b = await pull_rate(namesrv, address, TOPIC, MESSAGE_COUNT), await _bare_loop(address)
        if number:
            ours.append(a)
            bare.append(b)
    return median(ours), median(bare)


async def _bare_loop(address: str) -> float:
    """Pull with nothing but asyncio streams and the same decoding: one connection, one request a queue at a time."""
    host, port = address.split(":")
    per_queue = MESSAGE_COUNT // QUEUE_COUNT
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 18)
    waiting: dict[int, asyncio.Future[tuple[bytes, bytes]]] = {}

    async def read() -> None:
        while True:
            length, header_length = struct.unpack(">II", await reader.readexactly(8))
            rest = await reader.readexactly(length - 4)
            header = json.loads(rest[: header_length & 0xFFFFFF])
            waiting.pop(header["opaque"]).set_result((header, rest[header_length & 0xFFFFFF :]))

    opaque = 0

    async def pull(queue_id: int) -> int:
        nonlocal opaque
        seen = offset = total = 0
        while offset < per_queue:
            request = headers.pull_without_trace(TOPIC, queue_id, offset).ext_fields
            opaque += 1
            header = json.dumps(
                {"code": 11, "flag": 0, "language": "PYTHON", "opaque": opaque, "version": 475, "extFields": request}
            ).encode()
            future = asyncio.get_running_loop().create_future()
            waiting[opaque] = future
            writer.write(struct.pack(">II", 4 + len(header), len(header)) + header)
            answer, body = await future
            for message in iter_messages(body):
                total += message.queue_offset
                seen += 1
            offset = int(answer["extFields"]["nextBeginOffset"])
        assert total == per_queue * (per_queue - 1) // 2
        return seen

    reading = asyncio.ensure_future(read())
    started = time.perf_counter()
    counts = await asyncio.gather(*(pull(queue_id) for queue_id in range(QUEUE_COUNT)))
    seconds = time.perf_counter() - started
    reading.cancel()
    writer.close()
    assert sum(counts) == MESSAGE_COUNT
    return MESSAGE_COUNT / seconds
