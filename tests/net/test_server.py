"""A listening port: whom it takes, whom it turns away, what is left when it closes."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from contextlib import suppress

import pytest

from rmqctl.errors import UnreachableError
from rmqctl.net.clock import SystemClock
from rmqctl.net.server import Listener
from rmqctl.net.stream import Stream, connect_tcp
from tests.scripted_peer import run


async def _echo(stream: Stream) -> None:
    while data := await stream.receive():
        stream.write(data)


async def _connect(listener: Listener) -> Stream:
    return await connect_tcp(listener.address, SystemClock(), 60)


async def _is_served(stream: Stream) -> bool:
    stream.write(b"hello")
    try:
        return await asyncio.wait_for(stream.receive(), 60) == b"hello"
    except UnreachableError:
        return False


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_connections_are_served_up_to_a_limit_and_the_rest_is_closed(host: str) -> None:
    listener = Listener(_echo, 2)
    await listener.open(host, 0)
    assert listener.address == f"{listener.host}:{listener.port}"
    assert listener.port > 0
    one, other, more = [await _connect(listener) for _ in range(3)]
    assert [await _is_served(stream) for stream in (one, other, more)] == [True, True, False]
    assert listener.connection_count == 2
    for stream in (one, other, more):
        await stream.aclose()
    await listener.aclose()


async def test_a_place_that_became_free_is_given_away_again() -> None:
    listener = Listener(_echo, 1)
    await listener.open("127.0.0.1", 0)
    for _ in range(3):
        stream = await _connect(listener)
        assert await _is_served(stream)
        await stream.aclose()
        while listener.connection_count:  # noqa: ASYNC110 - until the other side has seen it
            await asyncio.sleep(0)
    await listener.aclose()


async def test_a_port_that_is_taken_or_nobodys_is_told_in_words() -> None:
    listener, second = Listener(_echo, 1), Listener(_echo, 1)
    await listener.open("127.0.0.1", 0)
    with pytest.raises(UnreachableError, match="another program is listening on this port"):
        await second.open("127.0.0.1", listener.port)
    with pytest.raises(UnreachableError, match=r"192\.0\.2\.1:0: "):
        await second.open("192.0.2.1", 0)
    await listener.aclose()
    await second.aclose()
    # The port is free at once.
    await second.open("127.0.0.1", listener.port)
    await second.aclose()


async def test_after_the_end_nobody_is_connected_and_nobody_gets_in() -> None:
    listener = Listener(_echo, 5)
    await listener.open("127.0.0.1", 0)
    streams = [await _connect(listener) for _ in range(3)]
    assert await _is_served(streams[0])
    await listener.aclose()
    assert listener.connection_count == 0
    for stream in streams:
        assert not await _is_served(stream)
        await stream.aclose()
    with pytest.raises(UnreachableError, match="connection refused"):
        await _connect(listener)


async def test_a_peer_that_never_reads_does_not_hold_up_the_end() -> None:
    written = asyncio.Event()

    async def talk(stream: Stream) -> None:
        stream.write(bytes(30_000_000))
        await asyncio.sleep(0)
        assert stream.unsent_bytes > 1_000_000
        written.set()
        await stream.aclose()

    listener = Listener(talk, 5)
    await listener.open("127.0.0.1", 0)
    with socket.create_connection((listener.host, listener.port)):
        await asyncio.wait_for(written.wait(), 60)
        await asyncio.wait_for(listener.aclose(), 60)


@pytest.mark.parametrize("turns", range(8))
def test_a_connection_that_comes_while_the_port_closes_is_closed(turns: int) -> None:
    async def scenario() -> None:
        listener = Listener(_echo, 5)
        await listener.open("127.0.0.1", 0)
        await asyncio.sleep(0)
        with socket.create_connection((listener.host, listener.port)) as connection:
            for _ in range(turns):
                await asyncio.sleep(0)
            await listener.aclose()
            connection.setblocking(False)
            with suppress(ConnectionResetError):  # the port closed before it was accepted
                assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(connection, 1), 60) == b""

    with warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always")
        run(scenario())
        gc.collect()
    assert left_open == []
