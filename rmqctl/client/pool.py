"""Connections by address: opened at first use, shared by all requests, reopened after they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from rmqctl.errors import UnreachableError
from rmqctl.net.clock import Clock
from rmqctl.net.stream import Stream, connect_tcp
from rmqctl.net.tasks import stop_tasks

from .link import Handler, Link

# Opens a stream to an address within a number of seconds.
Connect = Callable[[str, Clock, float], Awaitable[Stream]]

# After a failed attempt, further requests to the address fail immediately with the same reason for this long.
_COOL_DOWN_S = 1.0


class Pool:
    """One connection per address; `on_opened` and `on_ended` are called with the address of each new or ended one.

    `is_closed`: no connection can be opened any more.
    """

    def __init__(
        self, clock: Clock, *, connect: Connect = connect_tcp, handlers: Mapping[int, Handler] | None = None,
        on_opened: Callable[[str], None] = lambda _: None, on_ended: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._connect = connect
        self._handlers = {} if handlers is None else handlers
        self._on_opened, self._on_ended = on_opened, on_ended
        self._links: dict[str, Link] = {}
        self._opening: dict[str, asyncio.Future[Link]] = {}
        self._failed: dict[str, tuple[float, UnreachableError]] = {}
        self.is_closed = False

    async def link(self, address: str, timeout_s: float) -> Link:
        """Return a live connection. Raises UnreachableError; several callers share one attempt."""
        if self.is_closed:
            raise UnreachableError(address, "the connection was closed here")
        link = self._links.get(address)
        if link is not None and not link.closed:
            return link
        failed = self._failed.get(address)
        if failed is not None and self._clock.monotonic_s() < failed[0]:
            raise failed[1]
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.ensure_future(self._open(address, timeout_s))
            self._opening[address] = opening
            opening.add_done_callback(lambda _: self._opening.pop(address, None))
        # Shielded: a caller that gives up must not take the attempt away from the others.
        return await asyncio.shield(opening)

    async def _open(self, address: str, timeout_s: float) -> Link:
        try:
            stream = await self._connect(address, self._clock, timeout_s)
        except UnreachableError as error:
            self._failed[address] = (self._clock.monotonic_s() + _COOL_DOWN_S, error)
            raise
        link = Link(stream, self._clock, self._handlers, on_end=partial(self._on_ended, address))
        self._links[address] = link
        self._failed.pop(address, None)
        self._on_opened(address)
        return link

    async def drop(self, link: Link) -> None:
        """Close one connection; the next request to its address opens another."""
        for address, known in list(self._links.items()):
            if known is link:
                del self._links[address]
        await link.aclose()

    async def drop_address(self, address: str) -> None:
        """Close the connection to an address, if there is one."""
        link = self._links.get(address)
        if link is not None:
            await self.drop(link)

    async def aclose(self) -> None:
        """Close all connections; new ones can no longer be opened."""
        self.is_closed = True
        await stop_tasks(self._opening.values())
        await asyncio.gather(*(link.aclose() for link in self._links.values()))
        self._links.clear()
