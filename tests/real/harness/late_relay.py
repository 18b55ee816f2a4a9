"""A relay that holds some requests back, so that a broker gets them after their sender has given up."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import suppress

from .relay import Relay, _Pair

_LENGTH_BYTES = 4
# The upper byte of the header's length tells its encoding; rmqctl sends JSON unless it is told otherwise.
_HEADER_MASK = 0xFFFFFF


class LateRelay(Relay):
    """Passes requests on at once, but those with a code of `late_s` only so many seconds later, in any case."""

    def __init__(self, target_port: int, late_s: Mapping[int, float]) -> None:
        self._late_s = late_s
        super().__init__(target_port)

    async def _pump(self, pair: _Pair, source: socket.socket, target: socket.socket) -> None:
        if source is not pair.sockets[0]:
            await super()._pump(pair, source, target)
            return
        late: list[asyncio.Task[None]] = []
        unread = b""
        with suppress(OSError):
            while data := await self._loop.sock_recv(source, 1 << 16):
                unread += data
                while len(unread) > 2 * _LENGTH_BYTES and len(unread) >= (end := _LENGTH_BYTES + _number(unread, 0)):
                    frame, unread = unread[:end], unread[end:]
                    wait_s = self._late_s.get(_code(frame))
                    if wait_s is None:
                        await self._loop.sock_sendall(target, frame)
                    else:
                        late.append(self._loop.create_task(self._send_later(wait_s, target, frame)))
            # Who sent them may be gone: what is on its way arrives all the same.
            await asyncio.gather(*late)

    async def _send_later(self, wait_s: float, target: socket.socket, frame: bytes) -> None:
        await asyncio.sleep(wait_s)
        await self._loop.sock_sendall(target, frame)


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + _LENGTH_BYTES])


def _code(frame: bytes) -> int:
    start = 2 * _LENGTH_BYTES
    length = _number(frame, _LENGTH_BYTES) & _HEADER_MASK
    code: int = json.loads(frame[start : start + length])["code"]
    return code
