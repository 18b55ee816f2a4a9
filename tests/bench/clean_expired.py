"""clean-expired on a sandbox of two brokers: 100 stuck of 500 queues found and planned, 500 messages sent back."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.admin.cluster import java_map, mq_key
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.progress import commit, send

_QUEUES, _STUCK, _WINDOW_S = 250, 50, 1.0  # of each broker
_TOPIC, _AWAY, _HERE = "Wide", "Away", "Here"


class _Member(Peer):
    """A member that holds all queues and has messages of some in hand for ten minutes; it tells so when it is asked."""

    def tell_itself(self) -> None:
        """Answer what the broker has passed on."""
        for request in self.pushed:
            if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
                self.answer(request, Command(ResponseCode.SUCCESS, body=_running_info()))
        self.pushed.clear()


def _running_info() -> bytes:
    now_ms = time.time_ns() // 1_000_000
    table = []
    for broker in ("broker-a", "broker-b"):
        for queue_id in range(_QUEUES):
            is_stuck = queue_id < _STUCK
            table.append((mq_key(_TOPIC, broker, queue_id), {
                "cachedMsgCount": int(is_stuck), "cachedMsgMinOffset": 0, "cachedMsgMaxOffset": 0, "droped": False,
                "commitOffset": 0 if is_stuck else 2, "lastPullTimestamp": now_ms, "lastLockTimestamp": 7,
                "lastConsumeTimestamp": now_ms - 600_000,
            }))  # fmt: skip
    return f'{{"mqTable":{java_map(table)},"properties":{{"PROP_CONSUMEORDERLY":"false"}}}}'.encode()


async def _fill(sandbox: Sandbox) -> None:
    for name in sandbox.brokers:
        peer = await Peer.of_broker(sandbox, name)
        await peer.ask_ok(
            RequestCode.UPDATE_AND_CREATE_TOPIC, topic=_TOPIC, defaultTopic="TBW102", readQueueNums=_QUEUES,
            writeQueueNums=_QUEUES, perm=6, topicFilterType="SINGLE_TAG", topicSysFlag=0, order=False,
        )  # fmt: skip
        for group in (_AWAY, _HERE):
            await peer.heartbeat("gone", consumer_data(group, subscription(_TOPIC)))
        await peer.aclose()
        await sandbox.await_idle()
        peer = await Peer.of_broker(sandbox, name)
        for queue_id in range(_QUEUES):
            await send(peer, _TOPIC, queue_id, count=2, unique=True)
            await commit(peer, _AWAY, _TOPIC, queue_id, 0)
            await commit(peer, _HERE, _TOPIC, queue_id, 0 if queue_id < _STUCK else 2)
        await peer.aclose()


async def _join(sandbox: Sandbox) -> asyncio.Task[None]:
    members = []
    for name in sandbox.brokers:
        member = await _Member.of_broker(sandbox, name)
        await member.heartbeat("one", consumer_data(_HERE, subscription(_TOPIC)))
        members.append(member)

    async def answer() -> None:
        while True:
            for member in members:
                member.tell_itself()
            await asyncio.sleep(0.005)

    return asyncio.ensure_future(answer())


class _Run(NamedTuple):
    """One run: how long it took, and the items of its JSON."""

    wall_s: float
    items: list[dict[str, Any]]


def _run(sandbox: ThreadedSandbox, folder: str, *words: str) -> _Run:
    env = {**os.environ, "RMQCTL_STATE": folder, "NAMESRV_ADDR": sandbox.addr}
    started = time.perf_counter()
    command = [sys.executable, "-m", "rmqctl", "clean-expired", *words, "-o", "json"]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wall_s = time.perf_counter() - started
    assert done.returncode in (0, 10), done.stderr
    return _Run(wall_s, json.loads(done.stdout)["items"])


def measure() -> list[tuple[str, str, str, bool]]:
    """Return how long finding takes beyond the window, and how many messages a second are cleaned."""
    with ThreadedSandbox(brokers=2) as sandbox, tempfile.TemporaryDirectory() as folder:
        sandbox.run(_fill(sandbox.sandbox))
        queues = ("--queue", "broker-a", "--queue", "broker-b")
        done = _run(sandbox, folder, _AWAY, "--older-than", "1ms", "--for", "1ms", *queues, "--yes")
        freed_count = sum(item["result"] == "CONFIRMED" for item in done.items)
        rate = freed_count / done.wall_s
        answering = sandbox.run(_join(sandbox.sandbox))
        try:
            here = (_HERE, "--older-than", "1m", "--for", f"{_WINDOW_S:g}s", "--dry-run")
            runs = [_run(sandbox, folder, *here) for _ in range(3)]
        finally:
            sandbox.call(lambda _: answering.cancel())
        beyond_s = statistics.median(run.wall_s for run in runs) - _WINDOW_S
    found_count, stuck_count = len(runs[0].items), 2 * _STUCK
    return [
        (f"clean-expired, {found_count} stuck of {2 * _QUEUES} queues planned, beyond the window",
         f"{beyond_s:.2f} s", "< 3 s", beyond_s < 3 and found_count == stuck_count),
        (f"clean-expired, {freed_count} messages sent back, seen, acknowledged", f"{rate:,.0f} msg/s", ">= 500 msg/s",
         rate >= 500 and freed_count == 2 * _QUEUES),
    ]  # fmt: skip
