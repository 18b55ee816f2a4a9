"""One server of the sandbox: connections, the dispatch of requests to handlers, and faults."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import LocalProtocolError, RemoteProtocolError, RmqctlError
from rmqctl.net.clock import Clock
from rmqctl.net.server import Listener, max_connection_count
from rmqctl.net.stream import Stream
from rmqctl.net.tasks import start_task, stop_tasks
from rmqctl.protocol.codes import ResponseCode, request_code_name
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import RequestReceived
from rmqctl.sandbox.faults.faults import AnswerCode, Corrupt, Delay, Drop, Effect, Faults

from .channel import Channel
from .periodic import Periodic
from .request import RefusalError, Request, answer

logger = logging.getLogger("rmqctl.sandbox")

# NettyServerConfig.serverChannelMaxIdleTimeSeconds.
_IDLE_S = 120.0
_IDLE_SCAN_S = 10.0
# When this much is unread, a slow client is served no further request until it has read.
_SLOW_READER_BYTES = 1024 * 1024

# What a handler returns: an answer, None when it answers later or never, or a coroutine that returns either.
Result = Command | None | Coroutine[Any, Any, Command | None]
Handler = Callable[[Any, Request], Result]

_HEADER_AT = 8
_GARBAGE = 0xFF


class Limits(Struct, frozen=True):
    """The limits of one server.

    Beyond `connection_count`, connections that never sent a request are closed first. `partial_bytes` limits the
    incomplete frames of all connections; one frame may have 16 MiB. `unsent_bytes` limits the unread answers of one
    client, `all_unsent_bytes` those of all; both are checked after every `unsent_check_bytes` written.
    """

    connection_count: int = 4096
    partial_bytes: int = 128 * 1024 * 1024
    unsent_bytes: int = 64 * 1024 * 1024
    all_unsent_bytes: int = 256 * 1024 * 1024
    unsent_check_bytes: int = 8 * 1024 * 1024


class Server:
    """Serves one port, or streams in memory. `owner` is what handlers work on: a broker or the name server.

    `on_close` is called with each connection that has ended. `activity_count` grows with all activity, so that a test
    can recognize when the server is idle.
    """

    def __init__(
        self, name: str, owner: object, clock: Clock, version: int, handlers: Mapping[int, Handler], faults: Faults
    ) -> None:
        self.name = name
        self.activity_count = 0
        # In the order in which they connected.
        self.channels: dict[Channel, None] = {}
        self.is_silent_on_unknown_codes = False
        self.on_close: Callable[[Channel], None] = lambda _: None
        self._owner = owner
        self._clock = clock
        self._version = version
        self._handlers = handlers
        self._faults = faults
        self._tasks: set[asyncio.Task[None]] = set()
        self._partial_bytes = 0
        self._written_bytes = 0
        self._is_closed = False
        self._failed_at: set[tuple[int, str]] = set()
        self.limits = Limits(connection_count=max_connection_count(Limits().connection_count))
        # A few more, for which older ones are closed.
        self._listener = Listener(self.serve, self.limits.connection_count + 64)
        self._idle_scan: Periodic | None = None

    @property
    def address(self) -> str:
        """The address it listens on, as host:port."""
        return self._listener.address

    @property
    def host_and_port(self) -> tuple[str, int]:
        """The address it listens on, as host and port."""
        return self._listener.host, self._listener.port

    async def open(self, host: str, port: int) -> None:
        """Listen. Raises UnreachableError."""
        await self._listener.open(host, port)
        self._idle_scan = Periodic(self._clock, _IDLE_SCAN_S, self._close_idle)

    async def aclose(self) -> None:
        """Close the port and every connection; cancel the requests that are still being handled."""
        self._is_closed = True
        if self._idle_scan is not None:
            self._idle_scan.stop()
        self._listener.close_port()
        await asyncio.gather(*(channel.aclose() for channel in list(self.channels)))
        await self._listener.aclose()
        await stop_tasks(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a background task that ends with the server."""
        start_task(work, self._tasks)

    async def serve(self, stream: Stream) -> None:
        """Serve one connection until it ends."""
        channel = Channel(stream, self._clock, self._version, self._written)
        self._make_room()
        self.channels[channel] = None
        try:
            while (not channel.is_closed or channel.is_cut) and (data := await stream.receive()):
                self.activity_count += 1
                if channel.is_closed:
                    continue  # closed while it is cut: the client must not notice
                if not channel.is_cut:
                    channel.last_active_s = self._clock.monotonic_s()
                channel.protocol.receive_data(data)
                while (event := channel.protocol.next_event()) is not None:
                    if isinstance(event, RequestReceived):
                        self._receive(Request(event.command, channel))
                    elif not channel.is_cut:
                        channel.answered(event.command)
                    if channel.unsent_bytes > _SLOW_READER_BYTES:
                        await channel.drain()
                self._hold_partial(channel, channel.protocol.buffered_bytes)
                await channel.drain()
            await channel.notice_end()
        except RemoteProtocolError as error:
            logger.debug("%s: %s closed: %s", self.name, channel.address, error)
        except RmqctlError:
            await channel.notice_end()  # the connection broke
        finally:
            self._hold_partial(channel, 0)
            self.channels.pop(channel, None)
            self.activity_count += 1
            channel.closed()  # before on_close, which relies on it
            self.on_close(channel)
            await channel.aclose()

    def give_up(self, channel: Channel) -> None:
        """Close a connection that was silent for too long.

        On a connection that is cut, the close is lost too: the server forgets it, the client sees it open until healed.
        """
        channel.closed()
        self.on_close(channel)
        if not channel.is_cut:
            self.spawn(channel.aclose())

    def review(self) -> None:
        """Apply the current partitions to all connections."""
        for channel in list(self.channels):
            channel.set_cut(self._faults.is_cut(self.name, channel))
            if channel.is_closed and not channel.is_cut:
                self.spawn(channel.aclose())

    def keep_alive(self, seconds: float) -> None:
        """Count a jump of the clock as activity of all clients that are not cut off."""
        for channel in self.channels:
            if not channel.is_cut:
                channel.last_active_s += seconds

    def _make_room(self) -> None:
        """When there are too many connections, close the oldest one that never sent a request."""
        if len(self.channels) < self.limits.connection_count:
            return
        silent = next((channel for channel in self.channels if not channel.has_spoken), None)
        victim = silent or min(self.channels, key=lambda channel: channel.last_active_s)
        logger.debug("%s: %s closed: too many connections", self.name, victim.address)
        self.channels.pop(victim)
        self.spawn(victim.aclose())

    def _hold_partial(self, channel: Channel, held_bytes: int) -> None:
        """Count a connection's incomplete frame; above the limit for all, close the connection with the largest one."""
        self._partial_bytes += held_bytes - channel.held_bytes
        channel.held_bytes = held_bytes
        if held_bytes and self._partial_bytes > self.limits.partial_bytes:
            victim = max(self.channels, key=lambda each: each.held_bytes)
            logger.warning("%s: %s closed: too many bytes of incomplete frames", self.name, victim.address)
            self._partial_bytes -= victim.held_bytes
            victim.held_bytes = 0
            victim.closed()
            self.spawn(victim.aclose())

    def _written(self, size_bytes: int) -> None:
        self._written_bytes += size_bytes
        if self._written_bytes < self.limits.unsent_check_bytes:
            return
        self._written_bytes = 0
        unsent = {channel: channel.unsent_bytes for channel in self.channels if not channel.is_closed}
        total = sum(unsent.values())
        for channel in sorted(unsent, key=unsent.__getitem__, reverse=True):
            if unsent[channel] <= self.limits.unsent_bytes and total <= self.limits.all_unsent_bytes:
                return
            total -= unsent[channel]
            logger.warning("%s: %s closed: it does not read what it is sent", self.name, channel.address)
            self.spawn(channel.aclose())

    def _receive(self, request: Request) -> None:
        channel = request.channel
        channel.has_spoken = True
        if self._faults.has_partitions:
            self._faults.identify(request)
            channel.set_cut(self._faults.is_cut(self.name, channel))
        if channel.is_cut or channel.is_closed:
            return
        effect = self._faults.strike(self.name, request) if self._faults.planned else None
        if effect is None:
            self._handle(request)
        else:
            self._suffer(effect, request)

    def _suffer(self, effect: Effect, request: Request) -> None:
        if isinstance(effect, AnswerCode) and effect.is_handled(request.command.code):
            self._handle(_DoubtfulRequest(request, effect))
        elif isinstance(effect, AnswerCode):
            request.reply(answer(effect.code, effect.text))
        elif isinstance(effect, Drop):
            request.channel.closed()  # immediately: what arrived with it is lost too
            self.spawn(request.channel.aclose())
        elif isinstance(effect, Delay):
            self._clock.call_later(effect.seconds, lambda: self._handle(request))
        elif isinstance(effect, Corrupt):
            self._handle(_CorruptRequest(request.command, request.channel))
        # Silence: nothing at all.

    def _handle(self, request: Request) -> None:
        if self._is_closed:
            return  # it was delayed, and the server was restarted since
        self.activity_count += 1
        code = request.command.code
        handler = self._handlers.get(code)
        if handler is None:
            if not self.is_silent_on_unknown_codes:
                remark = f" request type {code} not supported"
                request.reply(answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))
            return
        try:
            result = handler(self._owner, request)
        except Exception as error:  # noqa: BLE001 - a broker answers code 1 whatever happens, and goes on
            request.reply(self._failure(request, error))
            return
        if isinstance(result, Command):
            request.reply(result)
        elif result is not None:
            self.spawn(self._finish(request, result))

    def resume(self, request: Request, work: Callable[[], Command | None]) -> None:
        """Resume a request that was held: answer with what `work` returns or raises; None means not yet.

        Nothing is done for a disconnected client: it would get no messages, but recreate its deleted group.
        """
        if request.channel.is_closed:
            return
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - as when it came
            result = self._failure(request, error)
        self.activity_count += 1
        if result is not None:
            request.reply(result)

    async def _finish(self, request: Request, work: Coroutine[Any, Any, Command | None]) -> None:
        try:
            result = await work
        except Exception as error:  # noqa: BLE001 - as above
            result = self._failure(request, error)
        self.activity_count += 1
        if result is not None:
            request.reply(result)

    def _failure(self, request: Request, error: Exception) -> Command:
        if isinstance(error, RefusalError):
            return error.to_answer()
        if isinstance(error, RmqctlError):
            return answer(ResponseCode.SYSTEM_ERROR, error.sentence)
        return self._bad_input(request, error)

    def _bad_input(self, request: Request, error: Exception) -> Command:
        """Answer an unexpected error, which a malformed request can cause; log it once per source line."""
        code = request.command.code
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        if (code, place) not in self._failed_at:
            self._failed_at.add((code, place))
            logger.warning("%s: request %s failed: %r at %s", self.name, request_code_name(code), error, place)
            logger.debug("%s: the first time", self.name, exc_info=error)
        return answer(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _close_idle(self) -> None:
        now_s = self._clock.monotonic_s()
        for channel in list(self.channels):
            if now_s - channel.last_active_s > _IDLE_S and not channel.is_closed:
                self.give_up(channel)


class _DoubtfulRequest(Request):
    """A send whose message is stored, and whose answer says with a code that it may be lost."""

    __slots__ = ("_effect",)

    def __init__(self, request: Request, effect: AnswerCode) -> None:
        super().__init__(request.command, request.channel)
        self._effect = effect

    def reply(self, response: Command) -> None:
        """Answer with the place of the message and the code; a refused message keeps its own answer."""
        if response.code == ResponseCode.SUCCESS:
            response = replace(response, code=self._effect.code, remark=self._effect.remark)
        super().reply(response)


class _CorruptRequest(Request):
    """A request whose answer has a header that cannot be read."""

    def reply(self, response: Command) -> None:
        """Answer with a frame of the right length whose header is garbage."""
        if self.command.is_oneway:
            return
        try:
            frame = bytearray(self.channel.encode_reply(self.command, response))
        except LocalProtocolError:
            return
        frame[_HEADER_AT] = _GARBAGE
        self.channel.write(bytes(frame))
