from __future__ import annotations

import asyncio
import errno
import socket
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from rmqctl.errors import DeadlineError, UnreachableError
from rmqctl.net.clock import SystemClock, VirtualClock
from rmqctl.net.stream import MemoryStream, Stream, connect_tcp, explain_os_error
from tests.scripted_peer import run

_Session = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _with_server(session: _Session, scenario: Callable[[str], Awaitable[None]]) -> None:
    """Serve connections on a free port of loopback while the scenario runs with its address."""
    sessions: list[Awaitable[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sessions.append(asyncio.ensure_future(session(reader, writer)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        await scenario(f"{host}:{port}")
        await asyncio.gather(*sessions)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()
    await writer.wait_closed()


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# In memory


async def test_each_end_of_a_memory_pair_is_named_after_the_other_side() -> None:
    client_end, server_end = MemoryStream.pair("client", "server:1")
    assert (client_end.peer, server_end.peer) == ("server:1", "client")


async def test_bytes_written_at_one_end_are_received_at_the_other_joined_and_in_order() -> None:
    one, other = MemoryStream.pair()
    one.write(b"a")
    one.write(b"b")
    await one.drain()
    assert await other.receive() == b"ab"
    other.write(b"c")
    assert await one.receive() == b"c"


async def test_a_receive_waits_until_something_is_written() -> None:
    one, other = MemoryStream.pair()
    receiving = asyncio.ensure_future(other.receive())
    await VirtualClock().await_idle()
    assert not receiving.done()
    one.write(b"now")
    assert await receiving == b"now"


@pytest.mark.parametrize("closing", [0, 1])
async def test_both_ends_see_a_close_after_what_was_written_before_it(closing: int) -> None:
    ends = MemoryStream.pair("other", "one")
    ends[0].write(b"last words")
    await ends[closing].aclose()
    assert await ends[1].receive() == b"last words"
    for end in ends:
        assert await end.receive() == b""
        with pytest.raises(UnreachableError, match="the connection was closed"):
            await end.drain()
    ends[0].write(b"too late")
    assert await ends[1].receive() == b""
    await ends[closing].aclose()


async def test_a_receive_that_waits_ends_with_the_close() -> None:
    one, other = MemoryStream.pair()
    receiving = asyncio.ensure_future(other.receive())
    await asyncio.sleep(0)
    await one.aclose()
    assert await receiving == b""


# Over TCP


def test_a_tcp_stream_carries_bytes_both_ways_and_ends_when_the_other_side_closes() -> None:
    async def scenario(address: str) -> None:
        stream = await connect_tcp(address, SystemClock(), 60)
        assert stream.peer == address
        data = bytes(range(256)) * 4_096
        stream.write(data)
        await stream.drain()
        received = b""
        while len(received) < len(data):
            received += await stream.receive()
        assert received == data
        await stream.aclose()
        await stream.aclose()

    run(_with_server(_echo, scenario))


def test_an_idle_connection_costs_less_than_32_kib() -> None:
    count = 100

    async def scenario(address: str) -> None:
        first = await connect_tcp(address, SystemClock(), 60)
        tracemalloc.start()
        streams = [await connect_tcp(address, SystemClock(), 60) for _ in range(count)]
        size_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert size_bytes < count * 32 * 1024
        for stream in (first, *streams):
            await stream.aclose()

    run(_with_server(_echo, scenario))


def test_what_is_written_in_pieces_arrives_in_order_and_before_the_close() -> None:
    received = bytearray()

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            received.extend(data)
        writer.close()

    async def scenario(address: str) -> None:
        stream = await connect_tcp(address, SystemClock(), 60)
        for number in range(100):
            stream.write(b"%03d" % number)
            if number % 30 == 0:
                await asyncio.sleep(0)
            if number % 40 == 0:
                await stream.drain()
        await stream.aclose()
        stream.write(b"too late")
        await asyncio.sleep(0)

    run(_with_server(collect, scenario))
    assert bytes(received) == b"".join(b"%03d" % number for number in range(100))


def test_a_tcp_stream_returns_nothing_once_the_other_side_has_closed() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def scenario(address: str) -> None:
        stream = await connect_tcp(address, SystemClock(), 60)
        assert await stream.receive() == b""
        await stream.aclose()

    run(_with_server(hang_up, scenario))


def test_a_reset_is_told_in_plain_words() -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        writer.transport.abort()

    async def scenario(address: str) -> None:
        stream = await connect_tcp(address, SystemClock(), 60)
        with pytest.raises(UnreachableError, match=f"{address}: the connection was reset"):
            await stream.receive()
        await stream.aclose()

    run(_with_server(reset, scenario))


def test_a_closed_port_refuses() -> None:
    address = f"127.0.0.1:{_closed_port()}"
    with pytest.raises(UnreachableError) as caught:
        run(_connect(address))
    assert caught.value.sentence == f"{address}: connection refused."
    assert not isinstance(caught.value, DeadlineError)


def test_a_refusal_by_all_addresses_of_a_name_is_a_refusal() -> None:
    with pytest.raises(UnreachableError, match="connection refused"):
        run(_connect(f"localhost:{_closed_port()}"))


@pytest.mark.parametrize(
    "host",
    ["no-such-host.invalid", "a..b", "x" * 64, "bad\x00host", "-", "a b", "\u2024"],
    ids=["unknown", "empty label", "long label", "nul", "dash", "blank", "one dot leader"],
)
def test_a_host_that_can_be_none_does_not_resolve(host: str) -> None:
    with pytest.raises(UnreachableError, match="does not resolve"):
        run(_connect(f"{host}:9876"))


@pytest.mark.parametrize("address", ["", "broker-a", "null:null", "10.0.0.1:0"])
def test_an_address_that_a_cluster_made_up_is_unreachable_and_no_usage_error(address: str) -> None:
    with pytest.raises(UnreachableError):
        run(_connect(address))


async def test_an_attempt_that_nobody_answers_ends_at_its_time_limit() -> None:
    clock = VirtualClock()
    # Nobody accepts here, and the backlog is filled up: the system leaves further attempts waiting.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            attempt = asyncio.ensure_future(connect_tcp(address, clock, 3.0))
            await clock.advance(2.9)
            assert not attempt.done()
            await clock.advance(0.1)
            with pytest.raises(DeadlineError) as caught:
                await attempt
        finally:
            for filler in fillers:
                filler.close()
    assert caught.value.sentence == f"{address}: no answer within 3.0 s."
    assert (caught.value.name, caught.value.exit_code) == ("TIMED_OUT", 6)


@contextmanager
def _silent(host: str, port: int = 0) -> Iterator[int]:
    """Hold a port at which the system leaves further attempts waiting: nobody accepts, and its backlog is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        number: int = listener.getsockname()[1]
        yield number


@pytest.mark.parametrize(("address", "named"), [("", "(empty)"), ("nonsense", "nonsense"), (":10911", ":10911")])
def test_what_a_cluster_gives_out_as_an_address_and_is_none_is_said_once(address: str, named: str) -> None:
    with pytest.raises(UnreachableError) as caught:
        asyncio.run(connect_tcp(address, SystemClock(), 60.0))
    assert caught.value.sentence == f"{named}: invalid address, not host:port."


@pytest.mark.parametrize("is_there", [True, False])
def test_an_address_that_is_silent_does_not_hide_the_next_one(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    with _silent("127.0.0.1") as port, socket.socket() as listener:
        listener.bind(("127.0.0.2", port))
        listener.listen(1)
        entries = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.1", "127.0.0.2")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: entries)
        if is_there:
            # Within its time, which the silent one would have used up.
            run(_close(f"both.test:{port}"))
        else:
            listener.close()
            with pytest.raises(DeadlineError):
                # The other address refuses: what is silent is waited for to the end.
                run(connect_tcp(f"both.test:{port}", SystemClock(), 0.6))


def test_what_all_addresses_of_a_name_answer_is_told_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    port = _closed_port()
    hosts = ("127.0.0.1", "127.0.0.2", "0.0.0.1")
    entries = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: entries)
    with pytest.raises(UnreachableError) as caught:
        run(_connect(f"several.test:{port}"))
    assert caught.value.reason == "connection refused"


async def _close(address: str) -> None:
    await (await connect_tcp(address, SystemClock(), 60)).aclose()


async def _connect(address: str) -> Stream:
    return await connect_tcp(address, SystemClock(), 60)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "the connection was reset"),
        (BrokenPipeError(errno.EPIPE, "x"), "the connection was closed"),
        (OSError(errno.EHOSTUNREACH, "x"), "no route to the host"),
        (OSError(errno.ENETUNREACH, "x"), "the network is unreachable"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "the connection timed out"),
        (socket.gaierror(socket.EAI_NONAME, "x"), "the host name does not resolve"),
        (OSError(errno.EMFILE, "Too many open files"), "too many open files"),
        (OSError("Something Else"), "something else"),
        (OSError(), "oserror"),
    ],
)
def test_errors_of_the_system_are_told_in_a_few_plain_words(error: OSError, words: str) -> None:
    assert explain_os_error(error) == words


def test_a_resolver_that_hangs_does_not_outlive_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    comes_back = threading.Event()
    waited_for: list[bool] = []

    def hanging(host: str, port: int, *args: object, flags: int = 0, **options: object) -> list[object]:
        if not flags:
            waited_for.append(comes_back.wait(120))
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    async def scenario() -> None:
        clock = VirtualClock()
        monkeypatch.setattr(socket, "getaddrinfo", hanging)
        connecting = asyncio.ensure_future(connect_tcp("slow.example:9876", clock, 1.0))
        await clock.advance(1.0)
        with pytest.raises(DeadlineError, match=r"no answer within 1\.0 s"):
            await connecting

    # Returns though the look-up still hangs: asyncio's own executor would be waited for here.
    asyncio.run(scenario())
    assert waited_for == []  # it still hangs
    comes_back.set()
