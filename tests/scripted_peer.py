"""A scripted peer: RocketMQ servers in memory, one memory stream a connection, and the `connect` that reaches them.

A server answers by request code from a table. A reply is a Command, a function of the request that returns a reply, or
one of SILENCE, DROP, Late and Raw.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rmqctl.client.core import Client
from rmqctl.errors import DeadlineError, UnreachableError
from rmqctl.net.clock import Clock, VirtualClock, wait_for
from rmqctl.net.stream import MemoryStream
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection, RequestReceived
from rmqctl.protocol.versions import version_ordinal

_T = TypeVar("_T")
V5_4_0 = version_ordinal(5, 4, 0)
V4_9_7 = version_ordinal(4, 9, 7)


@dataclass(frozen=True)
class _Silence:
    """Never answer."""


@dataclass(frozen=True)
class _Drop:
    """Close the connection instead of answering."""


@dataclass(frozen=True)
class Late:
    """Reply after so many seconds of the server's clock."""

    seconds: float
    reply: Reply


@dataclass(frozen=True)
class Raw:
    """Write these bytes instead of an answer."""

    data: bytes


Reply = Command | _Silence | _Drop | Late | Raw | Callable[[Command], "Reply"]
SILENCE = _Silence()
DROP = _Drop()


def ok(body: bytes = b"", **fields: str) -> Command:
    """Return an answer with code SUCCESS."""
    return Command(ResponseCode.SUCCESS, dict(fields), body)


def refused(code: int, remark: str | None = None) -> Command:
    """Return an answer with an error code."""
    return Command(code, remark=remark)


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end. What asyncio would only log, such as an error that nobody fetched, fails the test."""
    complaints: list[object] = []

    async def watched() -> _T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        return await coroutine

    result = asyncio.run(watched())
    assert not complaints, complaints
    return result


async def passing(
    clock: VirtualClock, coroutine: Coroutine[Any, Any, _T], *, step_s: float = 0.25, limit_s: float = 60
) -> _T:
    """Await while the clock moves on as time does; more of it than the limit is a hang."""
    task = asyncio.ensure_future(coroutine)
    until_s = clock.monotonic_s() + limit_s
    await clock.await_idle()
    while not task.done():
        assert clock.monotonic_s() < until_s, f"nothing happened for {limit_s} s"
        await clock.advance(step_s)
    return await task


class _Served:
    """One connection, seen from the server."""

    def __init__(self, server: ScriptedServer, stream: MemoryStream) -> None:
        self.server = server
        self.stream = stream
        self.protocol = Connection()
        self.pushed: dict[int, asyncio.Future[Command]] = {}
        self.reading = asyncio.ensure_future(self.read())

    async def read(self) -> None:
        while data := await self.stream.receive():
            self.protocol.receive_data(data)
            while (event := self.protocol.next_event()) is not None:
                command = event.command
                if isinstance(event, RequestReceived):
                    self.server.asked.append(command)
                    self.reply(command, self.server.reply_to(command))
                elif command.opaque in self.pushed:
                    self.pushed.pop(command.opaque).set_result(command)
        self.server.connections.remove(self)

    def reply(self, request: Command, reply: Reply) -> None:
        while callable(reply):
            reply = reply(request)
        if isinstance(reply, Late):
            later = reply.reply
            self.server.clock.call_later(reply.seconds, lambda: self.reply(request, later))
        elif isinstance(reply, Raw):
            self.stream.write(reply.data)
        elif isinstance(reply, _Drop):
            self.server.dropping.append(asyncio.ensure_future(self.stream.aclose()))
        elif isinstance(reply, Command) and not request.is_oneway:
            self.stream.write(self.protocol.send_response(request, self.server.signed(reply)))


class ScriptedServer:
    """One address. `table` may be changed at any time; `asked` are all requests so far, in the order they came."""

    def __init__(
        self, address: str, clock: Clock, table: Mapping[int, Reply] | None = None, *, version: int = V5_4_0
    ) -> None:
        self.address = address
        self.clock = clock
        self.version = version
        self.table: dict[int, Reply] = dict(table or {})
        self.asked: list[Command] = []
        self.connections: list[_Served] = []
        self.dropping: list[asyncio.Future[None]] = []
        self._next: defaultdict[int, deque[Reply]] = defaultdict(deque)

    def accept(self) -> MemoryStream:
        """Open a connection; return the client's end."""
        client_end, server_end = MemoryStream.pair("client", self.address)
        self.connections.append(_Served(self, server_end))
        return client_end

    def fail_next(self, code: int, reply: Reply) -> None:
        """Reply once like this to the next request with this code; several queue up."""
        self._next[code].append(reply)

    def reply_to(self, request: Command) -> Reply:
        """Return what the script says to a request; a code out of the table is answered as RocketMQ does."""
        if self._next[request.code]:
            return self._next[request.code].popleft()
        unknown = refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported")
        return self.table.get(request.code, unknown)

    def signed(self, answer: Command) -> Command:
        """Return the answer as this server writes it: a Java program of its version."""
        return Command(
            answer.code, answer.ext_fields, answer.body, remark=answer.remark, language="JAVA", version=self.version
        )

    def codes(self) -> list[int]:
        """Return the codes of all requests so far."""
        return [request.code for request in self.asked]

    async def drop(self) -> None:
        """Close every connection."""
        for connection in list(self.connections):
            await connection.stream.aclose()

    async def push(self, request: Command) -> Command | None:
        """Send a request to the client on the newest connection; return its answer, None for a oneway one."""
        connection = self.connections[-1]
        opaque, data = connection.protocol.send_request(request)
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        if not request.is_oneway:
            connection.pushed[opaque] = answer
        connection.stream.write(data)
        return None if request.is_oneway else await answer


class ScriptedNetwork:
    """All addresses. `connect` goes into Client(connect=...) and Pool(connect=...); `attempts` are its calls.

    An address without a server, or in `refusing`, refuses; one in `hanging` never answers the attempt.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.servers: dict[str, ScriptedServer] = {}
        self.refusing: set[str] = set()
        self.hanging: set[str] = set()
        self.attempts: list[str] = []

    def add(self, address: str, table: Mapping[int, Reply] | None = None, *, version: int = V5_4_0) -> ScriptedServer:
        """Start a server."""
        server = self.servers[address] = ScriptedServer(address, self.clock, table, version=version)
        return server

    async def connect(self, address: str, clock: Clock, timeout_s: float) -> MemoryStream:
        """Open a connection, as rmqctl.net.stream.connect_tcp does."""
        self.attempts.append(address)
        await asyncio.sleep(0)
        if address in self.hanging:
            try:
                await wait_for(clock, asyncio.Event().wait(), timeout_s)
            except TimeoutError:
                raise DeadlineError(address, timeout_s) from None
        if address in self.refusing or address not in self.servers:
            raise UnreachableError(address, "connection refused")
        return self.servers[address].accept()

    def client(self, *name_servers: str, timeout_s: float = 10.0, open_ended: bool = False) -> Client:
        """Return a client of this network, on its clock."""
        return Client(name_servers, timeout_s=timeout_s, clock=self.clock, connect=self.connect, open_ended=open_ended)
