"""How a job asks the cluster: one question, with a client of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rmqctl.client.access import Access
from rmqctl.client.core import Client

T = TypeVar("T")


def ask_cluster(access: Access, question: Callable[[Client], Awaitable[T]], *, open_ended: bool = False) -> T:
    """Return the answer to a question; when `open_ended`, the timeout limits its requests, and not all together."""

    async def ask() -> T:
        async with await access.connect(open_ended=open_ended) as client:
            return await question(client)

    return asyncio.run(ask())
