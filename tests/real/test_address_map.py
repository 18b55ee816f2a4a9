"""`--map-address` leads to brokers through other addresses, shown with a forwarder that counts what passes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .harness.cluster import Cluster
from .harness.process import free_port
from .harness.rmqctl import Rmqctl


class Forwarder:
    """Passes connections on to another port of loopback, in a thread of its own."""

    def __init__(self, target_port: int) -> None:
        self.connection_count = 0
        self.address = ""
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])
        self._thread.start()
        assert self._listening.wait(10)

    async def _serve(self) -> None:
        passing: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connection_count += 1
            passing.add(asyncio.ensure_future(self._pass(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        self._listening.set()
        await self._stop.wait()
        server.close()
        await asyncio.gather(*passing)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        await asyncio.gather(self._pump(reader, other_writer), self._pump(other_reader, writer))

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass  # the other direction has ended first
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    def close(self) -> None:
        """Stop; the connections have ended with the program that made them."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def _forwarded(port: int) -> Iterator[Forwarder]:
    forwarder = Forwarder(port)
    try:
        yield forwarder
    finally:
        forwarder.close()


def test_a_broker_is_reached_where_the_map_says(cluster: Cluster, rmqctl: Rmqctl) -> None:
    cluster.create_topic("Mapped")
    cluster.java.consume("mapped", "MappedGroup", "Mapped")
    broker = cluster.brokers["broker-a"]
    try:
        for key in ("broker-a", broker.address):
            with _forwarded(broker.port) as forwarder:
                mapped = rmqctl.items("group", "members", "MappedGroup", "--map-address", f"{key}={forwarder.address}")
                assert forwarder.connection_count == 1
                assert [item["unseenAt"] for item in mapped] == [[]]
    finally:
        cluster.java.stop("mapped")


def test_a_mapped_address_where_nobody_listens_is_named_with_the_brokers_own(cluster: Cluster, rmqctl: Rmqctl) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    result = rmqctl("cluster", "list", "--map-address", f"broker-b={nowhere}")

    assert result.exit_code == 8
    own = cluster.brokers["broker-b"].address
    assert f"{own} (mapped to {nowhere}: connection refused)" in result.stderr
