"""A sandbox with a group, for the commands that change offsets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmqctl.protocol.codes import RequestCode
from rmqctl.sandbox import Sandbox
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import Result
from tests.sandbox.peer import Peer, consumer_data, subscription
from tests.sandbox.progress import commit, send

GROUP, TOPIC = "G", "T"


@contextmanager
def seeded(
    plays: str = "5.4.0",
    *,
    brokers: int = 1,
    count: int = 10,
    stored: int | None = 6,
    unique: bool = False,
    **options: Any,
) -> Iterator[ThreadedSandbox]:
    """Run a sandbox with two queues of T on each broker, so many messages in each, and G's stored offset in them."""

    async def seed(sandbox: Sandbox) -> None:
        for name in sandbox.brokers:
            peer = await Peer.of_broker(sandbox, name)
            for queue_id in (0, 1):
                await send(peer, TOPIC, queue_id, count=count, unique=unique)
            # A group that was there and left.
            await peer.heartbeat("gone", consumer_data(GROUP, subscription(TOPIC)))
            await peer.aclose()
            await sandbox.await_idle()
            peer = await Peer.of_broker(sandbox, name)
            if stored is not None:
                for queue_id in (0, 1):
                    await commit(peer, GROUP, TOPIC, queue_id, stored)
            await peer.aclose()

    with ThreadedSandbox(plays=plays, brokers=brokers, **options) as sandbox:
        sandbox.run(seed(sandbox.sandbox))
        yield sandbox


def stored(
    sandbox: ThreadedSandbox, broker_name: str = "broker-a", *, group: str = GROUP, topic: str = TOPIC
) -> dict[int, int]:
    """Return the stored offsets of a group."""
    return sandbox.call(lambda inner: dict(inner.brokers[broker_name].offsets.stored.get((topic, group), {})))


def make_known(sandbox: ThreadedSandbox, group: str) -> None:
    """Make a group known, without a member or an offset."""

    async def make(inner: Sandbox) -> None:
        for name in inner.brokers:
            peer = await Peer.of_broker(inner, name)
            await peer.heartbeat("gone", consumer_data(group, subscription(TOPIC)))
            await peer.aclose()
        await inner.await_idle()

    sandbox.run(make(sandbox.sandbox))


def store(
    sandbox: ThreadedSandbox, queue_id: int, offset: int, *, broker_name: str = "broker-a", group: str = GROUP
) -> None:
    """Store an offset, as a client would."""

    async def change(inner: Sandbox) -> None:
        peer = await Peer.of_broker(inner, broker_name)
        await commit(peer, group, TOPIC, queue_id, offset)
        await peer.aclose()

    sandbox.run(change(sandbox.sandbox))


def join(sandbox: ThreadedSandbox, client_id: str = "c1", **data: Any) -> None:
    """Let a member connect to all brokers and stay. It pulls nothing and refuses what brokers ask of it."""

    async def connect(inner: Sandbox) -> None:
        for name in inner.brokers:
            peer = await Peer.of_broker(inner, name, refuses=True)
            await peer.heartbeat(client_id, consumer_data(GROUP, subscription(TOPIC), **data))

    sandbox.run(connect(sandbox.sandbox))


def document(result: Result) -> dict[str, Any]:
    """Return the one document on stdout."""
    found: dict[str, Any] = json.loads(result.out)
    return found


def program(*argv: str, namesrv: str, module: str = "rmqctl", **settings: Any) -> subprocess.Popen[str]:
    """Start the program as a process of its own, with this test's state folder, and with patience."""
    if "--timeout" not in argv:
        argv = (*argv, "--timeout", "60s")
    environment = {**os.environ, "NAMESRV_ADDR": namesrv, "PYTHONPATH": str(Path(__file__).parents[3])}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
    return subprocess.Popen([sys.executable, "-m", module, *argv], env=environment, text=True, **pipes)


UPDATE, RESET = RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
