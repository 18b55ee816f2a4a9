"""A unix socket for other programs of the same user: each line is a request, answered by one line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from rmqctl.errors import UnreachableError

from .stream import explain_os_error
from .tasks import stop_tasks

_MAX_LINE_BYTES = 64 * 1024


class LineServer:
    """Answers lines. Any program that can open the socket may ask, so it belongs in a private folder of the user."""

    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self, path: Path) -> None:
        """Listen; replaces a stale socket. Raises UnreachableError."""
        try:
            self._server = await asyncio.start_unix_server(self._accepted, path, limit=_MAX_LINE_BYTES)
            os.chmod(path, 0o600)  # noqa: PTH101 - synchronous, before the loop can accept
        except OSError as error:
            raise UnreachableError(str(path), explain_os_error(error)) from None

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._serving.add(task)
        try:
            while line := await reader.readline():
                writer.write(await self._answer(line) + b"\n")
                await writer.drain()
        except (asyncio.CancelledError, OSError, ValueError):
            pass  # aclose(), a client that disconnected, or a line that is too long
        finally:
            self._serving.discard(task)
            writer.close()

    async def aclose(self) -> None:
        """Close the server; the socket file is left for the owner of its folder to remove."""
        if self._server is None:
            return
        self._server.close()
        await stop_tasks(self._serving)
        self._server = None
