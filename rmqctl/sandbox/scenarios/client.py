"""A scripted client of a sandbox: the bare protocol over TCP, just enough for producers and consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rmqctl.errors import DeadlineError, RmqctlError, UnreachableError
from rmqctl.net.clock import Clock, wait_for
from rmqctl.net.stream import Stream, connect_tcp
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection, RequestReceived
from rmqctl.protocol.java_dumps import dumps
from rmqctl.protocol.java_json import loads
from rmqctl.sandbox.request import java_text

_CONNECT_TIMEOUT_S = 5.0
# DefaultMQPushConsumer.consumerTimeoutMillisWhenSuspend, longer than any pull is held.
_ANSWER_TIMEOUT_S = 30.0

# Returns the answer to a request from the broker, or None when it expects no answer.
Pushed = Callable[[Command], Command | None]


class ScriptedClient:
    """One client instance with a connection to each server that it uses."""

    def __init__(self, clock: Clock, version: int, pushed: Pushed) -> None:
        self.clock = clock
        self._version = version
        self._pushed = pushed
        self._lines: dict[str, _Line] = {}
        self._connecting = asyncio.Lock()

    async def ask(self, address: str, code: int, body: Any = b"", **fields: object) -> Command:
        """Send a request and return its answer. Raises RmqctlError when the connection breaks or no answer arrives."""
        # Concurrent requests share one connection: further ones would never be closed.
        async with self._connecting:
            line = self._lines.get(address)
            if line is None or line.is_closed:
                stream = await connect_tcp(address, self.clock, _CONNECT_TIMEOUT_S)
                line = self._lines[address] = _Line(stream, self._pushed)
        data = body if isinstance(body, bytes) else dumps(body)
        texts = {name: java_text(value) for name, value in fields.items()}
        asking = line.ask(Command(code, texts, data, language="JAVA", version=self._version))
        try:
            return await wait_for(self.clock, asking, _ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise DeadlineError(address, _ANSWER_TIMEOUT_S) from None

    async def ask_json(self, address: str, code: int, body: Any = b"", **fields: object) -> Any:
        """Send a request; return the decoded body of its answer, or None when it was refused."""
        answer = await self.ask(address, code, body, **fields)
        return loads(answer.body) if answer.code == ResponseCode.SUCCESS else None

    async def aclose(self) -> None:
        """Close all connections."""
        for line in self._lines.values():
            await line.aclose()


class _Line:
    """One connection."""

    def __init__(self, stream: Stream, pushed: Pushed) -> None:
        self.is_closed = False
        self._stream = stream
        self._pushed = pushed
        self._protocol = Connection()
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._reading = asyncio.ensure_future(self._read())

    async def ask(self, command: Command) -> Command:
        if self.is_closed:
            raise self._broken()
        opaque, data = self._protocol.send_request(command)
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = answer
        self._stream.write(data)
        try:
            return await answer
        finally:
            self._waiting.pop(opaque, None)
            self._protocol.forget(opaque)

    def _broken(self) -> UnreachableError:
        return UnreachableError(self._stream.peer, "the connection was closed")

    async def _read(self) -> None:
        try:
            while data := await self._stream.receive():
                self._protocol.receive_data(data)
                while (event := self._protocol.next_event()) is not None:
                    self._take(event.command, is_request=isinstance(event, RequestReceived))
        except RmqctlError:
            pass  # the sandbox dropped the connection, perhaps on purpose
        finally:
            self.is_closed = True
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(self._broken())
            await self._stream.aclose()

    def _take(self, command: Command, *, is_request: bool) -> None:
        if is_request:
            answer = self._pushed(command)
            if answer is not None and not command.is_oneway:
                self._stream.write(self._protocol.send_response(command, answer))
        elif command.opaque in self._waiting and not self._waiting[command.opaque].done():
            self._waiting[command.opaque].set_result(command)

    async def aclose(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
