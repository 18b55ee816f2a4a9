"""A call that is repeated in a thread of its own while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeating(call: Callable[[], object], pause_s: float = 0.0) -> Iterator[None]:
    """Call again and again in another thread, beside what is done meanwhile."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(pause_s):
            call()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        is_over.set()
        worker.join()
