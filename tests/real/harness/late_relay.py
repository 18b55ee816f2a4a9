"""Relays that know requests: one holds some back, so that a broker gets them late; one drops the answers to some."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from .relay import Relay, _Pair

_LENGTH_BYTES = 4
# The upper byte of the header's length tells its encoding; rmqctl sends JSON unless it is told otherwise.
_HEADER_MASK = 0xFFFFFF


class _FrameRelay(Relay):
    async def _frames(self, source: socket.socket) -> AsyncIterator[bytes]:
        unread = b""
        while data := await self._loop.sock_recv(source, 1 << 16):
            unread += data
            while len(unread) > 2 * _LENGTH_BYTES and len(unread) >= (end := _LENGTH_BYTES + _number(unread, 0)):
                frame, unread = unread[:end], unread[end:]
                yield frame


class LateRelay(_FrameRelay):
    """Passes requests on at once, but those with a code of `late_s` only so many seconds later, in any case."""

    def __init__(self, target_port: int, late_s: Mapping[int, float]) -> None:
        self._late_s = late_s
        super().__init__(target_port)

    async def _pump(self, pair: _Pair, source: socket.socket, target: socket.socket) -> None:
        if source is not pair.sockets[0]:
            await super()._pump(pair, source, target)
            return
        late: list[asyncio.Task[None]] = []
        with suppress(OSError):
            async for frame in self._frames(source):
                wait_s = self._late_s.get(_header(frame)["code"])
                if wait_s is None:
                    await self._loop.sock_sendall(target, frame)
                else:
                    late.append(self._loop.create_task(self._send_later(wait_s, target, frame)))
            # Who sent them may be gone: what is on its way arrives all the same.
            await asyncio.gather(*late)

    async def _send_later(self, wait_s: float, target: socket.socket, frame: bytes) -> None:
        await asyncio.sleep(wait_s)
        await self._loop.sock_sendall(target, frame)


class DroppingRelay(_FrameRelay):
    """Passes all on but one in so many answers to requests with a code, the first of them to the request `every`."""

    def __init__(self, target_port: int, code: int, every: int) -> None:
        self._code = code
        self._every = every
        self._asked_count = 0
        self._unanswered: set[tuple[_Pair, int]] = set()
        self.dropped_count = 0
        super().__init__(target_port)

    async def _pump(self, pair: _Pair, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            async for frame in self._frames(source):
                header = _header(frame)
                request = (pair, header["opaque"])
                if source is pair.sockets[0]:
                    if header["code"] == self._code:
                        self._asked_count += 1
                        if self._asked_count % self._every == 0:
                            self._unanswered.add(request)
                elif request in self._unanswered:
                    self.dropped_count += 1
                    continue
                await self._loop.sock_sendall(target, frame)


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + _LENGTH_BYTES])


def _header(frame: bytes) -> dict[str, Any]:
    start = 2 * _LENGTH_BYTES
    length = _number(frame, _LENGTH_BYTES) & _HEADER_MASK
    header: dict[str, Any] = json.loads(frame[start : start + length])
    return header
