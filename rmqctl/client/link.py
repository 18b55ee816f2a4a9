"""One connection: concurrent requests, answers matched to them, and handlers for the peer's requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from rmqctl.errors import DeadlineError, RemoteProtocolError, RmqctlError, UnreachableError
from rmqctl.net.clock import Clock
from rmqctl.net.stream import Stream
from rmqctl.net.tasks import start_task, stop_tasks
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection, Event, RequestReceived

# Late answers and requests without a handler arrive one at a time. A peer that sends this many, with no awaited answer
# in between, would keep this process busy beyond every deadline.
_UNSOLICITED_COUNT = 1_000

# Handles a request that the peer sent: gets its address and the command, returns the answer or None for no answer.
Handler = Callable[[str, Command], Awaitable[Command | None]]


class Link:
    """A connection with its reading task. Once `closed`, every request on it fails with the reason for the close.

    `on_end` is called once, when it ends.
    """

    def __init__(
        self, stream: Stream, clock: Clock, handlers: Mapping[int, Handler] | None = None, *,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.address = stream.peer
        self._stream = stream
        self._clock = clock
        self._handlers = {} if handlers is None else handlers
        self._on_end = on_end
        self._connection = Connection()
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._end: RmqctlError | None = None
        self._heard = False
        self._unsolicited_count = 0
        self._handling: set[asyncio.Task[None]] = set()
        self._reading = asyncio.ensure_future(self._read())

    @property
    def closed(self) -> bool:
        """Whether this connection has ended."""
        return self._end is not None

    async def request(self, command: Command, timeout_s: float) -> Command:
        """Send a request and return its answer, whatever its code.

        Raises DeadlineError after timeout_s, UnreachableError when the connection ends first, RemoteProtocolError when
        the peer violates the protocol. In all three cases the request may have been executed.
        """
        if self._end is not None:
            raise self._end
        opaque, data = self._connection.send_request(command)
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = answer

        def expire() -> None:
            if not answer.done():
                answer.set_exception(DeadlineError(self.address, timeout_s))

        timer = self._clock.call_later(timeout_s, expire)
        try:
            self._stream.write(data)
            return await answer
        finally:
            timer.cancel()
            self._waiting.pop(opaque, None)
            self._connection.forget(opaque)

    async def send_oneway(self, command: Command) -> None:
        """Send a request that is not answered. Raises UnreachableError."""
        if self._end is not None:
            raise self._end
        _, data = self._connection.send_request(command)
        self._stream.write(data)
        await self._stream.drain()

    async def aclose(self) -> None:
        """Close the connection; requests that wait fail."""
        self._fail(UnreachableError(self.address, "the connection was closed here"))
        await stop_tasks((self._reading, *self._handling))
        await self._stream.aclose()

    async def _read(self) -> None:
        connection = self._connection
        try:
            while data := await self._stream.receive():
                self._heard = True
                connection.receive_data(data)
                while (event := connection.next_event()) is not None:
                    self._take(event)
            # Servers that accept only TLS, and gRPC ports, close the connection like this.
            hint = None if self._heard else "Give --tls if the server requires TLS, and check the port."
            self._fail(UnreachableError(self.address, "the connection was closed before the answer arrived", hint=hint))
        except RemoteProtocolError as error:
            self._fail(error.reworded(f"{self.address}: {error.sentence}"))
        except RmqctlError as error:
            self._fail(error)
        finally:
            self._fail(UnreachableError(self.address, "the connection was abandoned"))
            await self._stream.aclose()

    def _take(self, event: Event) -> None:
        """Dispatch a received event. Raises RemoteProtocolError when the peer floods this connection."""
        if isinstance(event, RequestReceived):
            is_wanted = event.command.code in self._handlers
            self._handle(event.command)
        else:
            answer = self._waiting.get(event.command.opaque)
            is_wanted = answer is not None
            if answer is not None and not answer.done():
                answer.set_result(event.command)
        if is_wanted:
            self._unsolicited_count = 0
            return
        self._unsolicited_count += 1
        if self._unsolicited_count > _UNSOLICITED_COUNT:
            raise RemoteProtocolError(f"The peer sent {_UNSOLICITED_COUNT} frames that rmqctl did not ask for.")

    def _fail(self, error: RmqctlError) -> None:
        if self._end is None:
            self._end = error
            self._on_end()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._end)

    def _handle(self, command: Command) -> None:
        start_task(self._answer(command), self._handling)

    async def _answer(self, request: Command) -> None:
        handler = self._handlers.get(request.code)
        if handler is None:
            remark = f" request type {request.code} not supported"
            response: Command | None = Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        else:
            try:
                response = await handler(self.address, request)
            except RmqctlError as error:
                response = Command(ResponseCode.SYSTEM_ERROR, remark=error.sentence)
        if response is not None and not request.is_oneway and self._end is None:
            self._stream.write(self._connection.send_response(request, response))
