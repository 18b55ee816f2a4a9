"""Calls in daemon threads: asyncio's own executor would keep the program running until a call that hangs returns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def call_in_thread(call: Callable[[], _T]) -> _T:
    """Return the result of a blocking call, or raise its error. If cancelled, the call continues and is ignored."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_T] = loop.create_future()

    def settle(settle_one: Callable[[], object]) -> None:
        if not answer.done():
            settle_one()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - sys.exit() in the call must not leave the caller waiting
            is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)  # no future takes others
            failure = error if is_plain else RuntimeError(f"The call ended with {error!r}.")
            done: Callable[[], object] = lambda: answer.set_exception(failure)  # noqa: E731
        else:
            done = lambda: answer.set_result(result)  # noqa: E731
        try:
            loop.call_soon_threadsafe(settle, done)
        except RuntimeError:
            pass  # the loop has ended meanwhile

    threading.Thread(target=run, daemon=True).start()
    return await answer
