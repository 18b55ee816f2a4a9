"""A scripted cluster behind real sockets on loopback, in a thread of its own, for whole runs of the command line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rmqctl.protocol.command import Command
from rmqctl.protocol.connection import Connection, RequestReceived
from tests.admin.cluster import Cluster
from tests.scripted_peer import ScriptedServer


class Serve(Protocol):
    """Serves a cluster until the end of the test; NAMESRV_ADDR names it. Brokers that are `down` refuse connections."""

    def __call__(self, cluster: Cluster, *, down: Iterable[str] = ()) -> Cluster: ...


async def _session(server: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = Connection()
    try:
        while data := await reader.read(1 << 16):
            connection.receive_data(data)
            while (event := connection.next_event()) is not None:
                assert isinstance(event, RequestReceived)
                server.asked.append(event.command)
                reply = server.reply_to(event.command)
                while callable(reply):
                    reply = reply(event.command)
                assert isinstance(reply, Command), "only plain answers go over sockets"
                writer.write(connection.send_response(event.command, server.signed(reply)))
    except ConnectionError:
        pass  # the other side had enough
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@contextmanager
def served(cluster: Cluster) -> Iterator[str]:
    """Serve a cluster; gives the name server's address. Brokers keep the addresses that were set before."""
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    name_server_address = ""

    async def serve() -> None:
        nonlocal name_server_address
        sessions: set[asyncio.Task[None]] = set()

        async def listen(server: ScriptedServer) -> tuple[asyncio.Server, str]:
            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                sessions.add(asyncio.ensure_future(_session(server, reader, writer)))

            listening = await asyncio.start_server(accept, "127.0.0.1", 0)
            host, port = listening.sockets[0].getsockname()
            return listening, f"{host}:{port}"

        listening = []
        for name, server in cluster.servers.items():
            opened, address = await listen(server)
            cluster.addresses.setdefault(name, address)
            listening.append(opened)
        opened, name_server_address = await listen(cluster.name_server)
        started.set()
        await stop.wait()
        listening.append(opened)
        # asyncio leaves a connection open that it is about to accept when its server is closed.
        while accepting := asyncio.all_tasks() - sessions - {asyncio.current_task()}:
            await asyncio.wait(accepting)
        for listener in listening:
            listener.close()
        await asyncio.gather(*(listener.wait_closed() for listener in listening))
        # The sessions end with the client's connections, which it has closed.
        await asyncio.gather(*sessions)

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    try:
        assert started.wait(60)
        yield name_server_address
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        loop.close()
