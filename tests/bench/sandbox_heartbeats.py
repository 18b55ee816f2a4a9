"""A thousand consumers that send heartbeats to one broker: what it costs, and how late timers become.

Real consumers send one every 30 s. Here they send them that often in as many connections, spread over the time.
`python -m tests.bench.sandbox_heartbeats ADDRESS` is the process that the consumers live in.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable

from rmqctl.net.clock import SystemClock
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection
from rmqctl.protocol.versions import version_ordinal
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.periodic import Periodic

CONSUMER_COUNT = 1000
INTERVAL_S = 30.0
MEASURED_S = 20.0
_TICK_S = 0.1


class _Ticks:
    """A timer of the sandbox's clock; keeps how late each call came."""

    def __init__(self) -> None:
        self.count = 0
        self.late_s: list[float] = []
        self._started_s = time.monotonic()
        self._periodic = Periodic(SystemClock(), _TICK_S, self._tick)

    def _tick(self) -> None:
        self.count += 1
        self.late_s.append(time.monotonic() - self._started_s - self.count * _TICK_S)

    def stop(self) -> None:
        self._periodic.stop()


def measure() -> list[tuple[str, str, str, bool]]:
    """Return the share of a core, and the drift of a timer that ticks meanwhile."""
    return asyncio.run(_measure())


async def _measure() -> list[tuple[str, str, str, bool]]:
    async with Sandbox() as sandbox:
        broker = sandbox.brokers["broker-a"]
        consumers = await asyncio.create_subprocess_exec(sys.executable, "-m", __spec__.name, broker.address)
        try:
            await _until(lambda: len(broker.server.channels) >= CONSUMER_COUNT)
            await _until(lambda: sum(len(each.members) for each in broker.consumers.groups.values()) >= CONSUMER_COUNT)
            ticks, cpu_s = _Ticks(), time.process_time()
            await asyncio.sleep(MEASURED_S + _TICK_S / 2)  # the last tick is counted as well
            ticks.stop()
            share = (time.process_time() - cpu_s) / MEASURED_S
            member_count = sum(len(group.members) for group in broker.consumers.groups.values())
        finally:
            consumers.kill()
            await consumers.wait()
    missed = round(MEASURED_S / _TICK_S) - ticks.count
    drift_ms, late_ms = ticks.late_s[-1] * 1000, max(ticks.late_s) * 1000
    what = f"sandbox, {CONSUMER_COUNT:,} consumers' heartbeats"
    return [
        (f"{what}: CPU of one core", f"{share:.1%} ({member_count:,} members)", "< 10 %, none lost",
         share < 0.1 and member_count == CONSUMER_COUNT),
        (f"{what}: drift of a timer of {_TICK_S} s after {MEASURED_S:.0f} s",
         f"{drift_ms:.1f} ms, {missed} missed, at most {late_ms:.0f} ms late", "< 50 ms, none missed",
         drift_ms < 50 and missed == 0),
    ]  # fmt: skip


async def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the consumers did not come")


async def _all_consumers(address: str) -> None:
    await asyncio.gather(*(_consumer(address, number) for number in range(CONSUMER_COUNT)))


async def _consumer(address: str, number: int) -> None:
    host, port = address.rsplit(":", 1)
    # They come within 3 s, so that the port's queue does not overflow, and then stay apart.
    await asyncio.sleep(number / CONSUMER_COUNT * 3)
    reader, writer = await asyncio.open_connection(host, int(port))
    protocol = Connection()
    subscription = {"topic": "Beats", "subString": "*", "subVersion": 1, "expressionType": "TAG", "tagsSet": []}
    consumer = {
        "groupName": f"beats{number % 50}", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [subscription], "unitMode": False,
    }  # fmt: skip
    body = json.dumps({"clientID": f"10.0.0.1@{number}", "consumerDataSet": [consumer], "producerDataSet": []}).encode()
    beat = Command(RequestCode.HEART_BEAT, {}, body, language="JAVA", version=version_ordinal(5, 4, 0))

    async def read() -> None:
        while data := await reader.read(1 << 16):
            protocol.receive_data(data)
            while protocol.next_event() is not None:
                pass

    reading = asyncio.ensure_future(read())
    writer.write(protocol.send_request(beat)[1])
    await asyncio.sleep(number / CONSUMER_COUNT * INTERVAL_S)
    while not reading.done():
        writer.write(protocol.send_request(beat)[1])
        await asyncio.sleep(INTERVAL_S)


if __name__ == "__main__":
    asyncio.run(_all_consumers(sys.argv[1]))
