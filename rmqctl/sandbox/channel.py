"""One connection of a client, seen from a server: answers, and requests that the server pushes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import ip_address

from rmqctl.errors import DeadlineError, LocalProtocolError, RmqctlError, UnreachableError, UsageError
from rmqctl.net.address import parse_address
from rmqctl.net.clock import Clock
from rmqctl.net.stream import Stream
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection
from rmqctl.protocol.record import Host

_NO_HOST: Host = (bytes((127, 0, 0, 1)), 0)


class Channel:
    """A live connection. Brokers identify a member by its connection: two with one client id are two members.

    `client_id` is the client id that the peer last sent, None before the first. `suspected_id` is the client that the
    connection is attributed to until then, while that client is cut off. `is_cut` means that all traffic is lost, in
    both directions. `has_spoken` means that a complete request arrived; `held_bytes` is the size of an incomplete one.
    `on_write` is called with the number of bytes written.
    """

    def __init__(
        self, stream: Stream, clock: Clock, server_version: int, on_write: Callable[[int], object] = lambda _: None
    ) -> None:
        self.address = stream.peer
        self.host = host_of(stream.peer)
        self.protocol = Connection()
        self.client_id: str | None = None
        self.suspected_id: str | None = None
        self.is_cut = False
        self.is_closed = False
        self.has_spoken = False
        self.held_bytes = 0
        self.last_active_s = clock.monotonic_s()
        self._stream = stream
        self._clock = clock
        self._server_version = server_version
        self._on_write = on_write
        self._is_noticed = asyncio.Event()
        self._asked: dict[int, asyncio.Future[Command]] = {}

    def reply(self, request: Command, response: Command) -> None:
        """Answer a request; do nothing for a oneway request.

        An answer that does not fit into a frame is replaced by an error. RocketMQ sends the oversized frame, and
        clients then close the connection.
        """
        if request.is_oneway:
            return
        try:
            frame = self.encode_reply(request, response)
        except LocalProtocolError as error:
            frame = self.encode_reply(request, Command(ResponseCode.SYSTEM_ERROR, remark=error.sentence))
        self.write(frame)

    def encode_reply(self, request: Command, response: Command) -> bytes:
        """Return the frame that answers a request."""
        return self.protocol.send_response(request, self._signed(response))

    def write(self, data: bytes) -> None:
        """Send bytes, unless the connection is closed or cut."""
        if not self.is_closed and not self.is_cut:
            self.last_active_s = self._clock.monotonic_s()
            self._stream.write(data)
            self._on_write(len(data))

    @property
    def unsent_bytes(self) -> int:
        """The number of bytes that the client has not read yet."""
        return self._stream.unsent_bytes

    def push(self, command: Command) -> None:
        """Send the client a request without waiting for an answer; the caller sets the oneway flag."""
        self.write(self.protocol.send_request(self._signed(command))[1])

    async def ask(self, command: Command, timeout_s: float) -> Command:
        """Send the client a request and return its answer. Raises DeadlineError, UnreachableError."""
        if self.is_closed:
            raise UnreachableError(self.address, "the client has closed its connection")
        opaque, data = self.protocol.send_request(self._signed(command))
        waiting: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._asked[opaque] = waiting

        def expire() -> None:
            if not waiting.done():
                waiting.set_exception(DeadlineError(self.address, timeout_s))

        timer = self._clock.call_later(timeout_s, expire)
        try:
            self.write(data)
            return await waiting
        finally:
            timer.cancel()
            self._asked.pop(opaque, None)
            self.protocol.forget(opaque)

    def answered(self, response: Command) -> None:
        """Accept the client's answer to a request sent by ask()."""
        waiting = self._asked.get(response.opaque)
        if waiting is not None and not waiting.done():
            waiting.set_result(response)

    async def drain(self) -> None:
        """Wait while the client reads more slowly than it sends requests. Raises UnreachableError."""
        await self._stream.drain()

    def closed(self) -> None:
        """Mark the connection closed and fail the requests that wait for the client's answer."""
        if self.is_closed:
            return
        self.is_closed = True
        self._is_noticed.set()
        error: RmqctlError = UnreachableError(self.address, "the client has closed its connection")
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(error)

    def set_cut(self, is_cut: bool) -> None:
        """Cut the connection off, or restore it."""
        self.is_cut = is_cut
        if not is_cut:
            self._is_noticed.set()

    async def notice_end(self) -> None:
        """Wait until the server can notice that the client closed; while the connection is cut, it cannot."""
        while self.is_cut and not self.is_closed:
            self._is_noticed.clear()
            await self._is_noticed.wait()

    async def aclose(self) -> None:
        """Close the connection."""
        self.closed()
        await self._stream.aclose()

    def _signed(self, command: Command) -> Command:
        return Command(
            command.code, command.ext_fields, command.body, command.opaque, command.flag, command.remark,
            "JAVA", self._server_version,
        )  # fmt: skip


def host_of(peer: str) -> Host:
    """Return an address as messages store it; loopback and port 0 for a stream in memory."""
    try:
        host, port = parse_address(peer)
        return ip_address(host).packed, port
    except (UsageError, ValueError):
        return _NO_HOST  # a stream in memory has a name
