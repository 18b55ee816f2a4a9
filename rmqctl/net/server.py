"""A listening port: accepts a bounded number of connections and passes each to a handler."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable

from rmqctl.errors import UnreachableError

from .address import format_address
from .file_limit import open_file_limit
from .stream import Stream, accepted_stream, explain_os_error, resolve
from .tasks import start_task, stop_tasks

_BACKLOG_COUNT = 1024
# The process has no free file for another connection; some will close soon.
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_OUT_OF_FILES_S = 0.1


def max_connection_count(wanted_count: int) -> int:
    """Return how many connections one of a few ports may have open, so that the process does not run out of files."""
    limit = open_file_limit()
    return wanted_count if limit is None else max(16, min(wanted_count, limit // 4))


class Listener:
    """One open port. `address` is host:port with the actual port, also when port 0 was requested."""

    def __init__(self, serve: Callable[[Stream], Awaitable[None]], max_connection_count: int) -> None:
        self._serve = serve
        self._max_connection_count = max_connection_count
        self._serving: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self.host = ""
        self.port = 0

    @property
    def address(self) -> str:
        """The address it listens on, as host:port; an IPv6 host in brackets."""
        return format_address(self.host, self.port)

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._serving)

    async def open(self, host: str, port: int) -> None:
        """Listen on the first address of a host; port 0 chooses a free port. Raises UnreachableError."""
        try:
            address = (await resolve(host, port))[0]
            self._socket = _listen(address, port)
        except OSError as error:
            reason = explain_os_error(error)
            if error.errno == errno.EADDRINUSE:
                reason = "another program is listening on this port"
            raise UnreachableError(f"{host}:{port}", reason) from None
        self.host, self.port = self._socket.getsockname()[:2]
        self._accept_from(self._socket)

    def _accept_from(self, listening: socket.socket) -> None:
        # One connection per turn, which is served in the same turn: asyncio's own server accepts a thousand before the
        # first one is served, and writes as many tracebacks when the process runs out of files; loop.sock_accept()
        # loses an accepted connection when it is cancelled.
        if listening is self._socket:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, name = listening.accept()
        except OSError as error:
            # Any other error: the peer disconnected before it was accepted.
            if error.errno in _OUT_OF_FILES:
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(_OUT_OF_FILES_S, self._accept_from, listening)
            return
        if len(self._serving) >= self._max_connection_count:
            connection.close()
            return
        start_task(self._serve_socket(connection, name), self._serving)

    async def _serve_socket(self, connection: socket.socket, name: tuple[str, int]) -> None:
        peer = format_address(name[0], name[1])
        try:
            stream = await accepted_stream(peer, connection)
        except (OSError, asyncio.CancelledError):
            connection.close()  # the peer disconnected just now, or the port was closed
            return
        try:
            await self._serve(stream)
        except asyncio.CancelledError:
            pass  # aclose()
        finally:
            stream.close()

    def close_port(self) -> None:
        """Stop accepting connections."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    async def aclose(self) -> None:
        """Close the port and every connection."""
        self.close_port()
        await asyncio.sleep(0)  # a task that is cancelled before it starts would leave its connection open
        await stop_tasks(self._serving)


def is_own_address(address: str) -> bool:
    """Return whether this machine can listen on an IP address (not a host name)."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        # A port that was just closed may be reused, but never one that another program is listening on.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind((address, port))
        listening.listen(_BACKLOG_COUNT)
    except BaseException:
        listening.close()
        raise
    return listening
