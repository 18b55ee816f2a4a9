"""A Java process of the tests: started in its own folder, logged to a file, ended by its own id."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

BROKER_OPENS = (
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    # 4.9 unmaps files through it, for example when it starts on a store that was not closed.
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)


# 4.9.7 looks for these files and logs to the terminal without them; a root at WARN keeps its logs small.
_LOGBACK = """<configuration><appender name="C" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d %p %t - %m%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="C"/></root></configuration>"""


def make_home(folder: Path) -> None:
    """Make a folder that can be ROCKETMQ_HOME."""
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    for tool in ("namesrv", "broker", "tools"):
        (folder / "conf" / f"logback_{tool}.xml").write_text(_LOGBACK)


# Below the ports that systems give to outgoing connections: one of those could take a port before its server listens.
_PORTS = range(12_000, 32_000)


def free_port(*, neighbours: tuple[int, ...] = ()) -> int:
    """Return a free loopback port whose given neighbours (a broker uses port-2 and port+1) are free as well."""
    while True:
        port = random.choice(_PORTS)
        if all(_is_free(port + step) for step in (0, *neighbours)):
            return port


def _is_free(port: int) -> bool:
    if not 1024 < port < 65536:
        return False
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def is_listening(port: int) -> bool:
    """Tell whether something accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


# Tests want JVMs that start fast; benchmarks give none of these, to have them as their users run them.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class JavaProcess:
    """One JVM. `home` becomes ROCKETMQ_HOME and user.home, so nothing outside it is touched."""

    def __init__(
        self,
        name: str,
        home: Path,
        classpath: str,
        main: str,
        *args: str,
        jvm: tuple[str, ...] = (),
        pipe: bool = False,
        launcher: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.log_path = home / f"{name}.log"
        stream = subprocess.PIPE if pipe else None
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*launcher, "java", *jvm, f"-Duser.home={home}",
                 f"-DROCKETMQ_HOME={home}", "-cp", classpath, main, *args],
                stdin=stream or subprocess.DEVNULL, stdout=stream or log, stderr=log,
                cwd=home, env={**os.environ, "ROCKETMQ_HOME": str(home)}, start_new_session=True,
            )  # fmt: skip

    def wait_for_port(self, port: int, timeout_s: float = 60) -> None:
        """Wait until something listens on the port; raise when the process ends first."""
        self.wait_until(lambda: is_listening(port), f"port {port} to open", timeout_s)

    def wait_until(self, ready: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Poll until ready() is true; on failure the process's last log lines are part of the error."""
        give_up_at = time.monotonic() + timeout_s
        while not ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"{self.name}: waited {timeout_s} s for {what}:\n{self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self, line_count: int = 30) -> str:
        """Return the last lines that the process printed."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-line_count:])

    def pause(self) -> None:
        """Stop the process without ending it: its ports stay open and never answer."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once and wait for its end."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=30)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
