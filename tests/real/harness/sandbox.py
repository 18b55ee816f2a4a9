"""A sandbox in a process of its own, on ports that the system chose, as the tests' Java clients meet it.

Run as a module it is that process: it prints its addresses in one line of JSON, then obeys its standard input, a
command a line, and ends with it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from rmqctl.sandbox import Sandbox

from .cluster import Reachable
from .process import QUICK_START

_ROOT = Path(__file__).parent.parent.parent.parent


class SandboxProcess(Reachable):
    """A running sandbox of a release; logs to `log_path`."""

    def __init__(
        self,
        version: str,
        folder: Path,
        *,
        broker_count: int = 2,
        settings: Mapping[str, str] | None = None,
        directory: Path | None = None,
        jvm: tuple[str, ...] = QUICK_START,
    ) -> None:
        super().__init__(version, folder, jvm=jvm)
        self.log_path = folder / "sandbox.log"
        wanted = {"plays": version, "brokers": broker_count, "settings": dict(settings or {})}
        if directory is not None:
            wanted["dir"] = str(directory)
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.real.harness.sandbox", json.dumps(wanted)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=_ROOT, text=True,
            )  # fmt: skip
        self._lock = threading.Lock()
        addresses = self._read_answer()
        self.namesrv = addresses.pop("namesrv")
        self.addresses = addresses

    def restart(self, broker_name: str, *, loses_unflushed: bool = False) -> None:
        """Restart one broker, on its port; like after a power cut when what was not flushed is to be lost."""
        self._call("restart", broker_name, "lossy" if loses_unflushed else "clean")

    def stop_broker(self, broker_name: str) -> None:
        """Stop one broker."""
        self._call("stop", broker_name)

    def resume_broker(self, broker_name: str) -> None:
        """Start a broker again that was stopped."""
        self._call("resume", broker_name)

    def stop(self) -> None:
        """End the sandbox and the workbench."""
        self.close_java()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=30)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _call(self, *words: str) -> None:
        with self._lock:
            assert self.process.stdin is not None
            self.process.stdin.write(" ".join(words) + "\n")
            self.process.stdin.flush()
            self._read_answer()

    def _read_answer(self) -> dict[str, str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            tail = "\n".join(self.log_path.read_text().splitlines()[-30:])
            raise RuntimeError(f"the sandbox ended:\n{tail}")
        answer: dict[str, str] = json.loads(line)
        return answer


async def _serve(wanted: dict[str, object]) -> None:
    async with Sandbox(**wanted) as sandbox:  # type: ignore[arg-type]
        addresses = {name: broker.address for name, broker in sandbox.brokers.items()}
        print(json.dumps({"namesrv": sandbox.addr, **addresses}), flush=True)
        lines = asyncio.StreamReader()
        reading = asyncio.StreamReaderProtocol(lines)
        await asyncio.get_running_loop().connect_read_pipe(lambda: reading, sys.stdin)
        while line := await lines.readline():
            command, broker_name, *more = line.decode().split()
            broker = sandbox.brokers[broker_name]
            if command == "restart":
                await broker.restart(lose_unflushed=more == ["lossy"])
            elif command == "stop":
                await broker.stop()
            elif command == "resume":
                await broker.resume()
            print("{}", flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.argv[1])))
