"""The listener that runs a command, without a consumer around it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from pathlib import Path
from typing import Any

from rmqctl.cli.consume.listeners import run_command
from rmqctl.cli.output.body import BodyStyle
from rmqctl.consumer.batch import Batch
from rmqctl.consumer.process_queue import ProcessQueue
from tests.consumer.consumer_parts import MQ, message
from tests.scripted_peer import run


def test_a_command_is_killed_with_what_it_started(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    script = f'exec 3> "{alive}"; echo started >&3; sleep 600 & wait'
    listener: Any = run_command(f"sh -c '{script}'", BodyStyle(), timeout_s=3600, is_orderly=False)

    # Whoever runs it holds the pipe open for writing: its end is seen by who reads.
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)

    async def read() -> bytes:
        assert (await asyncio.to_thread(select.select, [reader], [], [], 60))[0]
        return os.read(reader, 100)

    async def go() -> None:
        batch = Batch(ProcessQueue(MQ), [message(0)], 0)
        running = asyncio.create_task(listener(batch.messages, batch))
        assert await read() == b"started\n"
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert await read() == b""

    try:
        run(go())
    finally:
        os.close(reader)
