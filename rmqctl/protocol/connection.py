"""One connection, sans-IO, in either role: requests and responses both ways, matched by opaque."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import LocalProtocolError

from .command import Command, HeaderEncoding
from .flags import CommandFlag
from .frame import FrameBuffer, encode_frame


class RequestReceived(Struct, frozen=True):
    """A request of the other side; answer it with Connection.send_response() unless it is oneway."""

    command: Command


class ResponseReceived(Struct, frozen=True):
    """The answer to a request of ours. `request_code` is None when the answer is late and its request was given up."""

    command: Command
    request_code: int | None


Event = RequestReceived | ResponseReceived


class Connection:
    """The state of one connection. Both sides may send requests: a broker pushes some to its clients.

    Feed received bytes to receive_data(), then call next_event() until it returns None. The send_* methods return
    the bytes to write. After a RemoteProtocolError, close the connection: it cannot be used any further.
    """

    def __init__(self) -> None:
        self._frames = FrameBuffer()
        self._next_opaque = 0
        self._outstanding: dict[int, int] = {}

    @property
    def outstanding_count(self) -> int:
        """Number of our requests that wait for an answer."""
        return len(self._outstanding)

    @property
    def buffered_bytes(self) -> int:
        """Number of bytes received of a command that is not complete yet."""
        return len(self._frames)

    def send_request(self, command: Command) -> tuple[int, bytes]:
        """Return the opaque of this request and the bytes to write."""
        opaque = self._next_opaque
        # Java's opaque is an int that wraps; stay positive so that logs on both sides show the same number.
        self._next_opaque = (opaque + 1) & 0x7FFFFFFF
        data = encode_frame(replace(command, opaque=opaque))
        if not command.is_oneway:
            self._outstanding[opaque] = command.code
        return opaque, data

    def send_response(self, request: Command, response: Command) -> bytes:
        """Return the bytes that answer a received request, in the request's own header encoding."""
        if request.is_oneway:
            raise LocalProtocolError(f"Oneway request {request.code} must not be answered.")
        encoding = request.encoding if -(2**15) <= response.code < 2**15 else HeaderEncoding.JSON
        flag = response.flag | CommandFlag.RESPONSE
        return encode_frame(replace(response, opaque=request.opaque, flag=flag, encoding=encoding))

    def forget(self, opaque: int) -> None:
        """Give up on a request; a late answer to it has request_code None."""
        self._outstanding.pop(opaque, None)

    def receive_data(self, data: bytes) -> None:
        """Add received bytes."""
        self._frames.feed(data)

    def next_event(self) -> Event | None:
        """Return the next event, or None until more bytes arrive. Raises RemoteProtocolError."""
        command = self._frames.next_command()
        if command is None:
            return None
        if command.is_response:
            return ResponseReceived(command, self._outstanding.pop(command.opaque, None))
        return RequestReceived(command)
