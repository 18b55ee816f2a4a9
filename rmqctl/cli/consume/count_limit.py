"""A listener that consumes a limited number of messages."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rmqctl.consumer.workers import is_coroutine_function

if TYPE_CHECKING:
    from rmqctl.consumer.batch import Answer, Batch, Listener
    from rmqctl.protocol.message import StoredMessage


def count_down(listener: Listener, count: int, on_last: Callable[[], None]) -> Listener:
    """Return a listener that consumes the first `count` messages and leaves later ones unacknowledged."""
    left, lock = count, threading.Lock()

    def is_wanted(messages: Sequence[StoredMessage], batch: Batch) -> bool:
        nonlocal left
        with lock:
            batch.is_left_alone = left <= 0
            # Surplus messages of a batch are left alone too: they are not acknowledged with the rest.
            batch.messages = messages[: max(left, 0)] or messages
            left -= len(messages)
            if left <= 0:
                on_last()
            return not batch.is_left_alone

    if is_coroutine_function(listener):

        async def later(messages: Sequence[StoredMessage], batch: Batch) -> Answer:
            answer = listener(batch.messages, batch) if is_wanted(messages, batch) else None
            return await answer if inspect.isawaitable(answer) else answer

        return later

    def now(messages: Sequence[StoredMessage], batch: Batch) -> Answer:
        return listener(batch.messages, batch) if is_wanted(messages, batch) else None  # type: ignore[return-value]

    return now
