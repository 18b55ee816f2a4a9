"""Sends requests to a server, real or of the sandbox, and keeps what was asked and answered."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection, RequestReceived
from rmqctl.protocol.versions import version_ordinal

_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Exchange:
    """One request and its answer; None for an answer that did not come."""

    server: str
    code: int
    fields: Mapping[str, str]
    answer: Command | None
    data: bytes = b""


class _Connection:
    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
        self.protocol = Connection()
        self.pushed: list[Command] = []

    def ask(self, command: Command, timeout_s: float = _TIMEOUT_S) -> Command | None:
        _, data = self.protocol.send_request(command)
        self.socket.settimeout(timeout_s)
        self.socket.sendall(data)
        while not command.is_oneway:
            event = self.protocol.next_event()
            if event is None:
                try:
                    received = self.socket.recv(1 << 16)
                except TimeoutError:
                    return None
                if not received:
                    return None
                self.protocol.receive_data(received)
            elif isinstance(event, RequestReceived):
                self.pushed.append(event.command)
            else:
                return event.command
        return None

    def take_pushes(self) -> None:
        """Read what has come without being asked for. A connection that is closed gives nothing."""
        try:
            self.socket.settimeout(0)
            self.protocol.receive_data(self.socket.recv(1 << 16))
        except OSError:
            pass
        while (event := self.protocol.next_event()) is not None:
            if isinstance(event, RequestReceived):
                self.pushed.append(event.command)


class Asker:
    """Asks the name server ("namesrv") and a broker ("broker"), each over connections named by the script.

    Two names for one server are two clients to it. `suffix` makes names of topics and groups unique on a server that
    serves other tests as well: the script writes them with `name()`.
    """

    def __init__(self, namesrv: str, broker: str, *, version: str, suffix: str) -> None:
        self.exchanges: list[Exchange] = []
        self.started_ms = 0
        self.restart_clock()
        self.is_5 = version.startswith("5")
        self.suffix = suffix
        self._addresses = {"namesrv": namesrv, "broker": broker}
        self._version = version_ordinal(*(int(part) for part in version.split(".")))
        self._connections: dict[tuple[str, str], _Connection] = {}

    def name(self, text: str) -> str:
        """Return a name for a topic or group."""
        return f"{text}{self.suffix}"

    def __call__(
        self, server: str, code: int, body: Any = b"", *, client: str = "one", oneway: bool = False,
        timeout_s: float = _TIMEOUT_S, **fields: object,
    ) -> Command | None:  # fmt: skip
        """Send a request, keep what came back, return it. A body that is no bytes is written as JSON.

        Where silence is the answer, `timeout_s` says how long to listen for it.
        """
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in fields.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        command = Command(code, texts, data, flag=2 if oneway else 0, language="JAVA", version=self._version)
        answer = self.connection(server, client).ask(command, timeout_s)
        if not oneway and answer is not None and "TIMEOUT_CLEAN_QUEUE" in (answer.remark or ""):
            # The machine was busy: a broker puts off what waited for 200 ms, and has not looked at it.
            time.sleep(1)
            answer = self.connection(server, client).ask(command, timeout_s)
        if not oneway:
            self.exchanges.append(Exchange(server, code, texts, answer, data))
        return answer

    def restart_clock(self) -> None:
        """Count the times in all answers from now on, where the servers have taken different times so far."""
        self.started_ms = int(time.time() * 1000)

    def connection(self, server: str, client: str = "one") -> _Connection:
        """Return a client's connection to a server, opened when it is first used."""
        key = (server, client)
        if key not in self._connections:
            self._connections[key] = _Connection(self._addresses[server])
        return self._connections[key]

    def pushes(self, quiet_s: float) -> dict[str, list[Command]]:
        """Return what the servers pushed to each client ("broker two"), once they are quiet for so long."""
        is_quiet = False
        while not is_quiet:
            quiet_until = time.monotonic() + quiet_s
            before = self._push_count()
            while time.monotonic() < quiet_until and self._push_count() == before:
                for connection in self._connections.values():
                    connection.take_pushes()
                time.sleep(0.01)
            is_quiet = self._push_count() == before
        return {" ".join(key): connection.pushed for key, connection in self._connections.items()}

    def _push_count(self) -> int:
        return sum(len(connection.pushed) for connection in self._connections.values())

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.socket.close()
