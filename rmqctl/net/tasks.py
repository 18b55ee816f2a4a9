"""Background tasks: start them, run them again after an error, and stop them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from rmqctl.net.clock import Clock, pause

_Result = TypeVar("_Result")


def start_task(work: Coroutine[Any, Any, _Result], *kept_in: set[Any]) -> asyncio.Task[_Result]:
    """Start work; its task is in these sets until it has ended. A task that nothing refers to may disappear."""
    task = asyncio.ensure_future(work)
    for tasks in kept_in:
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    return task


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
