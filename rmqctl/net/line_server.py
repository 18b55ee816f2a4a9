"""A local endpoint for other programs of the same user: one line a question, one line an answer, over a unix socket."""

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
    """Answers lines. Whoever may open the socket may ask: it belongs into a folder of the user's own."""

    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self, path: Path) -> None:
        """Listen; a socket that is left over there is replaced. Raises UnreachableError."""
        try:
            self._server = await asyncio.start_unix_server(self._accepted, path, limit=_MAX_LINE_BYTES)
            os.chmod(path, 0o600)  # noqa: PTH101 - at once, before anybody could wait
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
            pass  # aclose(), a reader that went away, a line that is too long
        finally:
            self._serving.discard(task)
            writer.close()

    async def aclose(self) -> None:
        """Close it; the file of the socket stays for its folder's owner to remove."""
        if self._server is None:
            return
        self._server.close()
        await stop_tasks(self._serving)
        self._server = None
