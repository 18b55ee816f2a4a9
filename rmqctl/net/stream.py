"""Byte streams: one over TCP, one in memory for tests and embedded servers. They translate errors of the system."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Sequence
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

from rmqctl.errors import DeadlineError, UnreachableError, UsageError

from .address import parse_address
from .clock import Clock, wait_for
from .daemon_threads import call_in_thread
from .file_limit import OUT_OF_FILES, OUT_OF_FILES_HINT, out_of_files
from .tls import TlsFacts, explain_tls_error, read_facts

_READ_BYTES = 1 << 18
# Reading pauses while more than this is waiting to be received.
_MAX_UNREAD_BYTES = 2 * _READ_BYTES
# How long a peer may take to answer the TLS shutdown; asyncio would wait 30 s.
_TLS_SHUTDOWN_S = 0.5
# What RFC 8305 recommends.
_NEXT_ADDRESS_S = 0.25
# How long unsent data may hold up a close: a peer that does not read would hold it up for ever. The TLS shutdown is
# shorter.
_CLOSE_S = 1.0

# The buffer that all streams of an event loop read into. 256 KiB for each idle connection would be a gigabyte for 4096.
_buffers: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()


class Stream(Protocol):
    """The bytes of a connection in both directions. `peer` names the other side in messages."""

    peer: str

    @property
    def unsent_bytes(self) -> int:
        """The number of bytes that are not yet sent."""

    async def receive(self) -> bytes:
        """Return the next data, b"" when the other side has closed. Raises UnreachableError."""

    def write(self, data: bytes) -> None:
        """Send data as soon as possible; it is buffered until then."""

    async def drain(self) -> None:
        """Wait while too much is buffered. Raises UnreachableError."""

    async def aclose(self) -> None:
        """Close; never raises."""


class SocketStream(asyncio.BufferedProtocol):
    """A TCP connection, made by `loop.create_connection`.

    It reads into a buffer: asyncio's streams allocate 256 KiB for each read, which costs more than all further
    processing of the data.
    """

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        if self._loop not in _buffers:
            _buffers[self._loop] = memoryview(bytearray(_READ_BYTES))
        # asyncio reads into it and calls buffer_updated() in one step, so all streams can share it.
        self._memory = _buffers[self._loop]
        # Data that was read and is not yet received.
        self._chunks: list[bytes] = []
        self._unread_bytes = 0
        self._receiver: asyncio.Future[None] | None = None
        self._is_reading = True
        self._has_ended = False
        self._error: Exception | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._is_full = False
        self._drainers: list[asyncio.Future[None]] = []
        self._closed: asyncio.Future[None] = self._loop.create_future()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BaseProtocol."""
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 (asyncio gives it)
        """See asyncio.BufferedProtocol."""
        return self._memory

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self._chunks.append(bytes(self._memory[:nbytes]))
        self._unread_bytes += nbytes
        if self._unread_bytes > _MAX_UNREAD_BYTES and self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()
        self._wake_receiver()

    def eof_received(self) -> bool:
        """See asyncio.BufferedProtocol. Unsent data is still sent, except over TLS, which cannot do so."""
        self._has_ended = True
        self._wake_receiver()
        return self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol."""
        self._has_ended = True
        self._error = exc
        self._wake_receiver()
        self.resume_writing()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._is_full = True

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._is_full = False
        for drainer in self._drainers:
            if not drainer.done():
                drainer.set_result(None)
        self._drainers.clear()

    def _wake_receiver(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    # What Stream promises

    @property
    def unsent_bytes(self) -> int:
        """See Stream."""
        return self._unsent_bytes + self._transport.get_write_buffer_size()

    async def receive(self) -> bytes:
        """See Stream."""
        while not self._chunks and not self._has_ended:
            self._receiver = self._loop.create_future()
            await self._receiver
        if not self._chunks and isinstance(self._error, OSError):
            raise _unreachable(self.peer, self._error)
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._unread_bytes = 0
        if not self._is_reading and not self._has_ended:
            self._is_reading = True
            self._transport.resume_reading()
        return data

    def write(self, data: bytes) -> None:
        """See Stream.

        Data written in one turn of the event loop is sent together. Each send is a system call, and would wake the peer
        for one request instead of ten.
        """
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(data)
        self._unsent_bytes += len(data)

    def _send(self) -> None:
        if self._unsent and not self._transport.is_closing():
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()
        self._unsent_bytes = 0

    async def drain(self) -> None:
        """See Stream."""
        self._send()
        if self._is_full and not self._closed.done():
            drainer = self._loop.create_future()
            self._drainers.append(drainer)
            await drainer
        if isinstance(self._error, OSError):
            raise _unreachable(self.peer, self._error)
        if self._closed.done():
            raise UnreachableError(self.peer, _REASONS[errno.EPIPE])

    def tls_facts(self) -> TlsFacts | None:
        """Return what TLS agreed on, None for a plain connection."""
        connection = self._transport.get_extra_info("ssl_object")
        return None if connection is None else read_facts(connection)

    def close(self) -> None:
        """Start to close; data that was written is still sent."""
        self._send()
        self._transport.close()

    async def aclose(self) -> None:
        """See Stream."""
        self.close()
        # Cancelling the caller cancels only this wait, not the future, which all callers of aclose() share.
        if not (await asyncio.wait([self._closed], timeout=_CLOSE_S))[0]:
            self._transport.abort()
            await asyncio.wait([self._closed], timeout=_CLOSE_S)


async def connect_tcp(address: str, clock: Clock, timeout_s: float, *, tls: ssl.SSLContext | None = None) -> Stream:
    """Open a connection to host:port, with TLS when a context is given. Raises UnreachableError or DeadlineError."""
    try:
        host, port = parse_address(address)
    except UsageError:
        # The user's own addresses were checked earlier: this one was reported by the cluster.
        hint = "Check brokerIP1 in the configuration of the brokers: the cluster reports this address."
        raise UnreachableError(address or "(empty)", "invalid address, not host:port", hint=hint) from None
    try:
        return await wait_for(clock, _open(address, host, port, tls), timeout_s)
    except TimeoutError:
        raise DeadlineError(address, timeout_s) from None
    except ConnectionResetError as error:
        if tls is None or error.errno is not None:
            raise _unreachable(address, error) from None
        # asyncio's own error, for a connection that ended during the handshake.
        hint = "Omit --tls if the server does not use TLS."
        raise UnreachableError(address, "the server ended the TLS handshake", hint=hint) from None
    except OSError as error:
        raise _unreachable(address, error) from None
    except ValueError:
        # A host that IDNA rejects (an empty or overlong label) or that contains a NUL fails before it is looked up.
        raise UnreachableError(address, "the host name does not resolve") from None


async def accepted_stream(peer: str, connection: socket.socket) -> SocketStream:
    """Return a stream for a connection that a server has accepted. Raises OSError."""
    _, stream = await asyncio.get_running_loop().connect_accepted_socket(lambda: SocketStream(peer), connection)
    return stream


def _unreachable(address: str, error: OSError) -> UnreachableError:
    if isinstance(error, ssl.SSLError):
        reason, hint = explain_tls_error(error)
        return UnreachableError(address, reason, hint=hint)
    if error.errno in OUT_OF_FILES:
        reason = f"cannot open a connection: {out_of_files(error.errno)}"
        return UnreachableError(address, reason, hint=OUT_OF_FILES_HINT)
    return UnreachableError(address, explain_os_error(error))


async def _open(peer: str, host: str, port: int, tls: ssl.SSLContext | None) -> SocketStream:
    """Connect to the first address of a host that accepts the connection. Raises OSError, ValueError."""
    addresses = await resolve(host, port)
    if not addresses:
        raise socket.gaierror("no address")
    # Concurrently: a silent address, as IPv6 often is, would use up the whole time. Most names have only one address.
    place: Any = {"host": addresses[0], "port": port}
    if len(addresses) > 1:
        place = {"sock": await _connect_first(addresses, port)}
    _, stream = await asyncio.get_running_loop().create_connection(
        lambda: SocketStream(peer),
        ssl=tls,
        server_hostname=None if tls is None else host,
        ssl_shutdown_timeout=None if tls is None else _TLS_SHUTDOWN_S,
        **place,
    )
    return stream


async def _connect_first(addresses: Sequence[str], port: int) -> socket.socket:
    """Return the first connection that succeeds; each address is tried _NEXT_ADDRESS_S after the last (RFC 8305)."""
    from aiohappyeyeballs import start_connection

    entries = [
        (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
        if ":" in address
        else (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))
        for address in addresses
    ]
    return await start_connection(entries, happy_eyeballs_delay=_NEXT_ADDRESS_S)


async def resolve(host: str, port: int) -> list[str]:
    """Return a host's addresses. Raises OSError, ValueError.

    Names are resolved in a daemon thread: a resolver can hang for 30 s.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [str(entry[4][0]) for entry in found]
    except socket.gaierror:
        pass  # a name

    def look_up() -> list[str]:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))

    return await call_in_thread(look_up)


_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "the connection was reset",
    errno.EPIPE: "the connection was closed",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.ETIMEDOUT: "the connection timed out",
}


def explain_os_error(error: OSError) -> str:
    """Return the reason for an error of the system in a few plain words."""
    if isinstance(error, socket.gaierror):
        return "the host name does not resolve"
    if error.errno in _REASONS:
        return _REASONS[error.errno]
    # Different errors of several addresses (IPv6 and IPv4 of localhost) are joined into one text without an errno.
    text = str(error)
    if error.errno is None:
        for number, words in _REASONS.items():
            if f"[Errno {number}]" in text:
                return words
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
        """See Stream. Both ends still receive data that was written before the close."""
        for end in (self, self._other):
            if end is not None:
                end._closed = True
                end._news.set()
