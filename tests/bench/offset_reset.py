"""1,000 queues of a group that does not run, planned, reset, read back: whole processes, against the sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile

from rmqctl.client.core import Client
from rmqctl.protocol import writes
from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from tests.bench.measure import median, rmqctl, run_process
from tests.bench.sandbox_start import PROGRAM

QUEUE_COUNT, MESSAGES_EACH = 1000, 5
_LIMIT_S = 3.0
_TOPIC = {
    "topic": "Wide", "defaultTopic": "TBW102", "readQueueNums": str(QUEUE_COUNT), "writeQueueNums": str(QUEUE_COUNT),
    "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
}  # fmt: skip
_MESSAGE = {
    "a": "producers", "b": "Wide", "c": "TBW102", "d": "8", "f": "0", "g": "1795290000000", "h": "0", "i": "", "j": "0",
    "k": "false", "m": "false",
}  # fmt: skip


def measure() -> list[tuple[str, str, str, bool]]:
    """Return the median time of resets to an offset, to a time, and to the end."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        asyncio.run(_fill(address))
        return [_row(address, words) for words in (("--to-offset", "2"), ("--by-duration", "1h"), ("--to-latest",))]
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _row(address: str, words: tuple[str, ...]) -> tuple[str, str, str, bool]:
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        env = {"RMQCTL_STATE": folder}
        base = rmqctl("-n", address, "offset", "reset", "WideGroup", "--topic", "Wide", "--yes", "-o", "json")
        for number in range(6):
            # Somewhere else first, so that each queue is written.
            subprocess.run([*base, "--to-offset", "3"], env={**os.environ, **env}, check=True, capture_output=True)
            if number < 5:
                runs.append(run_process([*base, *words], env))
        done = subprocess.run([*base, *words], env={**os.environ, **env}, check=True, capture_output=True, text=True)
    results = {item["result"] for item in json.loads(done.stdout)["items"]}
    seconds, mib = median([run.wall_s for run in runs]), max(run.rss_mib for run in runs)
    figure = f"{seconds:.2f} s, {mib:.0f} MiB, {', '.join(sorted(results))}"
    reached = seconds < _LIMIT_S and results == {"CONFIRMED"}
    return f"offset reset {words[0]}, {QUEUE_COUNT} queues, whole process", figure, f"< {_LIMIT_S} s", reached


async def _fill(address: str) -> None:
    async with Client([address], timeout_s=60) as client:
        broker = (await client.cluster()).brokers[0].master_address
        assert broker is not None
        await client.ask(broker, Command(RequestCode.UPDATE_AND_CREATE_TOPIC, _TOPIC))
        await client.ask(broker, writes.update_group({"groupName": "WideGroup"}))
        for _ in range(MESSAGES_EACH):
            sends = [
                Command(RequestCode.SEND_MESSAGE_V2, {**_MESSAGE, "e": str(queue_id)}, b"x")
                for queue_id in range(QUEUE_COUNT)
            ]
            await asyncio.gather(*(client.ask(broker, send) for send in sends))
