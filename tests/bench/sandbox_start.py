"""From nothing to the first answered request of a sandbox in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

from rmqctl.protocol.codes import RequestCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection

from .measure import median

# A sandbox in a process of its own, which prints its address.
PROGRAM = """
import asyncio
from rmqctl.sandbox import Sandbox

async def main():
    async with Sandbox() as sandbox:
        print(sandbox.addr, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def measure() -> list[tuple[str, str, str, bool]]:
    """Return the median time of whole processes; the first start is not counted."""
    seconds = median([_started_s() for _ in range(12)][1:])
    return [("sandbox: whole process to the first answer", f"{seconds * 1000:.0f} ms", "< 400 ms", seconds < 0.4)]


def _started_s() -> float:
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().strip().rpartition(":")
        protocol = Connection()
        with socket.create_connection((host, int(port))) as client:
            client.sendall(protocol.send_request(Command(RequestCode.GET_BROKER_CLUSTER_INFO))[1])
            while (event := protocol.next_event()) is None:
                protocol.receive_data(client.recv(1 << 16))
        assert b"broker-a" in event.command.body
        return time.perf_counter() - started
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
