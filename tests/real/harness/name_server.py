"""A name server beside a cluster's own, which can be killed and started again empty on its port."""

from __future__ import annotations

from pathlib import Path

from .jars import rocketmq_jars
from .process import QUICK_START, JavaProcess, free_port, make_home


class NameServer:
    """One name server, which runs in `home`."""

    def __init__(self, version: str, home: Path, *, jvm: tuple[str, ...] = QUICK_START) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._version, self._home, self._jvm = version, home, jvm
        make_home(home)
        self._config = home / f"namesrv-{self.port}.conf"
        self._config.write_text(f"listenPort={self.port}\n")
        self.java: JavaProcess | None = None

    def start(self) -> NameServer:
        """Start it, knowing no broker, without waiting for its port."""
        self.java = JavaProcess(
            f"namesrv-{self.port}", self._home, f"{rocketmq_jars(self._version)}/*",
            "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(self._config), jvm=("-Xmx256m", *self._jvm),
        )  # fmt: skip
        return self

    def wait(self) -> NameServer:
        """Wait until it accepts connections."""
        assert self.java is not None
        self.java.wait_for_port(self.port)
        return self

    def kill(self) -> None:
        """End it at once."""
        if self.java is not None:
            self.java.kill()
