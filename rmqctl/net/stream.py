"""Byte streams: one over TCP, one in memory for tests and embedded servers. Errors of the system end here."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
from typing import Protocol

from rmqctl.errors import DeadlineError, UnreachableError, UsageError

from .address import parse_address
from .clock import Clock, wait_for
from .tls import TlsFacts, explain_tls_error, read_facts

_READ_BYTES = 1 << 18
# How long a peer may take to say goodbye; asyncio would wait 30 s for one that doesn't.
_TLS_SHUTDOWN_S = 0.5
# How long what is still to be sent may hold up a close: a peer that doesn't read would hold it for ever. The goodbye
# of TLS is shorter.
_CLOSE_S = 1.0


class Stream(Protocol):
    """A connection's bytes, both ways. `peer` names the other side in messages."""

    peer: str

    @property
    def unsent_bytes(self) -> int:
        """How much waits to be taken by the other side."""

    async def receive(self) -> bytes:
        """Return what came next, b"" when the other side has closed. Raises UnreachableError."""

    def write(self, data: bytes) -> None:
        """Send data as soon as possible; it is buffered until then."""

    async def drain(self) -> None:
        """Wait while too much is buffered. Raises UnreachableError."""

    async def aclose(self) -> None:
        """Close; never raises."""


class SocketStream:
    """A TCP connection."""

    def __init__(self, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self._reader = reader
        self._writer = writer
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0

    @property
    def unsent_bytes(self) -> int:
        """See Stream."""
        return self._unsent_bytes + self._writer.transport.get_write_buffer_size()

    async def receive(self) -> bytes:
        """See Stream."""
        try:
            return await self._reader.read(_READ_BYTES)
        except OSError as error:
            raise _unreachable(self.peer, error) from None

    def write(self, data: bytes) -> None:
        """See Stream.

        What is written in one turn of the event loop goes out in one piece: each send is a system call, and wakes the
        peer for one request where it could have had ten.
        """
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._send)
        self._unsent.append(data)
        self._unsent_bytes += len(data)

    def _send(self) -> None:
        if not self._writer.is_closing():
            self._writer.write(b"".join(self._unsent))
        self._unsent.clear()
        self._unsent_bytes = 0

    async def drain(self) -> None:
        """See Stream."""
        self._send()
        try:
            await self._writer.drain()
        except OSError as error:
            raise _unreachable(self.peer, error) from None

    def tls_facts(self) -> TlsFacts | None:
        """Return what TLS agreed on, None for a plain connection."""
        connection = self._writer.get_extra_info("ssl_object")
        return None if connection is None else read_facts(connection)

    async def aclose(self) -> None:
        """See Stream."""
        self._send()
        self._writer.close()
        # A task of its own: cancelling wait_closed() would cancel a future that all who close this stream share.
        closing = asyncio.ensure_future(self._writer.wait_closed())
        closing.add_done_callback(_forget_outcome)
        if not (await asyncio.wait([closing], timeout=_CLOSE_S))[0]:
            self._writer.transport.abort()
            await asyncio.wait([closing], timeout=_CLOSE_S)


def _forget_outcome(closing: asyncio.Future[None]) -> None:
    """Take a close's error, so that nobody complains of it: the other side was faster."""
    if not closing.cancelled():
        closing.exception()


async def connect_tcp(address: str, clock: Clock, timeout_s: float, *, tls: ssl.SSLContext | None = None) -> Stream:
    """Open a connection to host:port, with TLS when a context is given. Raises UnreachableError or DeadlineError."""
    try:
        host, port = parse_address(address)
    except UsageError:
        # The user's own addresses were checked before: this one came from the cluster.
        raise UnreachableError(address, "this is no address") from None
    try:
        reader, writer = await wait_for(clock, _open(host, port, tls), timeout_s)
    except TimeoutError:
        raise DeadlineError(address, timeout_s) from None
    except ConnectionResetError as error:
        if tls is None or error.errno is not None:
            raise _unreachable(address, error) from None
        # asyncio's own, for a connection that ended under the handshake.
        hint = "Without --tls the connection is plain."
        raise UnreachableError(address, "it ended the TLS handshake", hint=hint) from None
    except OSError as error:
        raise _unreachable(address, error) from None
    except ValueError:
        # A host that is no text for IDNA (an empty or overlong label) or holds a NUL fails before it is looked up.
        raise UnreachableError(address, "the host name does not resolve") from None
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return SocketStream(address, reader, writer)


def _unreachable(address: str, error: OSError) -> UnreachableError:
    if isinstance(error, ssl.SSLError):
        reason, hint = explain_tls_error(error)
        return UnreachableError(address, reason, hint=hint)
    return UnreachableError(address, explain_os_error(error))


async def _open(host: str, port: int, tls: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address of a host that takes the connection. Raises OSError, ValueError."""
    refusal: OSError | None = None
    for address in await resolve(host, port):
        try:
            if tls is None:
                return await asyncio.open_connection(address, port, limit=_READ_BYTES)
            return await asyncio.open_connection(
                address,
                port,
                limit=_READ_BYTES,
                ssl=tls,
                server_hostname=host,
                ssl_shutdown_timeout=_TLS_SHUTDOWN_S,
            )
        except ssl.SSLError:
            raise
        except OSError as error:
            refusal = refusal or error
    raise refusal or socket.gaierror("no address")


async def resolve(host: str, port: int) -> list[str]:
    """Return a host's addresses. Raises OSError, ValueError.

    Names are looked up in a thread that nobody waits for: a resolver can hang for 30 s, and asyncio's own executor
    would hold the program until it comes back.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [str(entry[4][0]) for entry in found]
    except socket.gaierror:
        pass  # a name
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(found: list[str] | Exception) -> None:
        if answer.done():
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look_up() -> None:
        found: list[str] | Exception
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except (OSError, ValueError) as error:
            found = error
        try:
            loop.call_soon_threadsafe(settle, found)
        except RuntimeError:
            pass  # the loop has ended meanwhile

    threading.Thread(target=look_up, daemon=True).start()
    return await answer


_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "the connection was reset",
    errno.EPIPE: "the connection was closed",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.ETIMEDOUT: "the connection timed out",
}


def explain_os_error(error: OSError) -> str:
    """Return a few plain words for an error of the system."""
    if isinstance(error, socket.gaierror):
        return "the host name does not resolve"
    if error.errno in _REASONS:
        return _REASONS[error.errno]
    # asyncio joins the errors of several addresses (IPv6 and IPv4 of localhost) into one text without an errno.
    text = str(error)
    if "Connect call failed" in text and f"[Errno {errno.ECONNREFUSED}]" in text:
        return _REASONS[errno.ECONNREFUSED]
    return (error.strerror or text or type(error).__name__).lower()


class MemoryStream:
    """One end of a connection in memory."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self._chunks: list[bytes] = []
        self._closed = False
        self._news = asyncio.Event()
        self._other: MemoryStream | None = None

    @classmethod
    def pair(cls, name: str = "memory", other_name: str = "memory") -> tuple[MemoryStream, MemoryStream]:
        """Return both ends; each is named after the other side."""
        one, other = cls(other_name), cls(name)
        one._other, other._other = other, one
        return one, other

    @property
    def unsent_bytes(self) -> int:
        """See Stream."""
        return 0 if self._other is None else sum(map(len, self._other._chunks))

    async def receive(self) -> bytes:
        """See Stream."""
        while not self._chunks and not self._closed:
            self._news.clear()
            await self._news.wait()
        data = b"".join(self._chunks)
        self._chunks.clear()
        return data

    def write(self, data: bytes) -> None:
        """See Stream."""
        if self._other is not None and not self._other._closed:
            self._other._chunks.append(data)
            self._other._news.set()

    async def drain(self) -> None:
        """See Stream."""
        if self._closed:
            raise UnreachableError(self.peer, _REASONS[errno.EPIPE])

    async def aclose(self) -> None:
        """See Stream. Both ends see the close after what was written before it."""
        for end in (self, self._other):
            if end is not None:
                end._closed = True
                end._news.set()
