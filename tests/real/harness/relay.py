"""A piece of network between a client and a server that a test can break: a relay on loopback."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

_CHUNK_BYTES = 1 << 16
_BACKLOG = 128
# Closing then sends RST, and what waits to be sent is thrown away.
_RESET = struct.pack("ii", 1, 0)


class _Pair:
    """A connection of a client and the one that continues it to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.sockets = (client, server)
        self.is_forgotten = False

    def reset_at_close(self) -> None:
        for each in self.sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def close(self) -> None:
        for each in self.sockets:
            each.close()


class Relay:
    """Passes connections on to another port of loopback, from a thread of its own.

    `address` is where it listens: on any free port, or the given one.
    """

    def __init__(self, target_port: int, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._target_port = target_port
        self._listener = self._bound(host, port)
        self._place = self._listener.getsockname()
        self.address = f"{self._place[0]}:{self._place[1]}"
        self._loop = asyncio.new_event_loop()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._passing: dict[asyncio.Task[None], _Pair] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._fillers: list[socket.socket] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._accept)

    def swallow(self) -> None:
        """Let nothing through in either direction, and answer nobody who wants to connect, as a cut cable does."""
        self._do(self._swallow)

    def heal(self) -> None:
        """Let through again: first what was on its way, as TCP sends that again."""
        self._do(self._heal)

    def reset(self) -> None:
        """End all connections by RST; new ones are taken."""
        self._do(self._reset)

    def forget(self) -> None:
        """Pass nothing on any more in the connections there are, without closing them; new ones pass.

        So does a firewall that has lost their state.
        """
        for pair in self._passing.values():
            pair.is_forgotten = True

    def refuse(self) -> None:
        """End all connections and take no new ones, as where a process was killed."""
        self._do(self._refuse)

    def listen_again(self) -> None:
        """Take connections again after refuse(), also where nothing was let through before it."""
        self._listener = self._bound(*self._place)
        self._loop.call_soon_threadsafe(self._is_open.set)
        self._do(self._accept)

    def close(self) -> None:
        """End it."""
        self._do(self._refuse)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @staticmethod
    def _bound(host: str, port: int) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        return listener

    def _do(self, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something in the relay's thread, and wait for it."""
        asyncio.run_coroutine_threadsafe(what(), self._loop).result(10)

    async def _accept(self) -> None:
        self._accepting = self._loop.create_task(self._accept_all())

    async def _accept_no_more(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()

    async def _swallow(self) -> None:
        self._is_open.clear()
        await self._accept_no_more()
        # Linux drops who wants to connect where the queue of those not accepted yet is full.
        self._listener.listen(0)
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(self._place)
            self._fillers.append(filler)

    async def _heal(self) -> None:
        await self._accept_no_more()
        self._listener.listen(_BACKLOG)
        self._is_open.set()
        await self._accept()

    async def _reset(self) -> None:
        for pair in self._passing.values():
            pair.reset_at_close()
        passing = list(self._passing)
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)

    async def _refuse(self) -> None:
        await self._accept_no_more()
        self._listener.close()
        await self._reset()

    async def _accept_all(self) -> None:
        while True:
            client, _ = await self._loop.sock_accept(self._listener)
            server = socket.socket()
            server.setblocking(False)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client, server)
            task = self._loop.create_task(self._pass(pair))
            self._passing[task] = pair
            task.add_done_callback(self._passing.pop)

    async def _pass(self, pair: _Pair) -> None:
        client, server = pair.sockets
        pumps: list[asyncio.Task[None]] = []
        try:
            await self._loop.sock_connect(server, ("127.0.0.1", self._target_port))
            pumps = [self._loop.create_task(self._pump(pair, *way)) for way in ((client, server), (server, client))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # nobody listens there
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            pair.close()

    async def _pump(self, pair: _Pair, source: socket.socket, target: socket.socket) -> None:
        """Pass on what comes, until one side ends; then the other's is ended too."""
        with suppress(OSError):
            while True:
                await self._is_open.wait()
                data = await self._loop.sock_recv(source, _CHUNK_BYTES)
                await self._is_open.wait()
                if pair.is_forgotten:
                    await asyncio.Event().wait()
                if not data:
                    return
                await self._loop.sock_sendall(target, data)
