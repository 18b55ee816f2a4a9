"""Waiting for what a cluster, a client or a process comes to by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def wait_until(what: Callable[[], object], timeout_s: float = 60, why: Callable[[], object] | None = None) -> None:
    """Poll until it is true, at most half of the time: what is polled needs the processors as well."""
    began_at = time.monotonic()
    looked_at = began_at
    while not what():
        now = time.monotonic()
        assert now < began_at + timeout_s, why() if why is not None else "it did not come to be so"
        time.sleep(max(0.05, now - looked_at))
        looked_at = time.monotonic()


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
