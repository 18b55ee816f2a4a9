"""Background tasks: run them again after an error, and stop them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from rmqctl.net.clock import Clock, pause


async def stop_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait until they have ended; their results and errors are ignored."""
    running = list(tasks)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def run_again(
    work: Callable[[], Awaitable[None]], *, clock: Clock, rest_s: float, on_error: Callable[[Exception], object]
) -> None:
    """Run work that must not end by a bug: pass on its error, and start it again after a rest, until it returns."""
    while True:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest of the program depends on the work
            on_error(error)
            await pause(clock, rest_s)
        else:
            return
