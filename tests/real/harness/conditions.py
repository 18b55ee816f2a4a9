"""Waiting for what a cluster, a client or a process comes to by itself."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(what: Callable[[], object], timeout_s: float = 60, why: Callable[[], object] | None = None) -> None:
    """Poll until it is true, at most half of the time: what is polled needs the processors as well."""
    began_at = time.monotonic()
    looked_at = began_at
    while not what():
        now = time.monotonic()
        assert now < began_at + timeout_s, why() if why is not None else "it did not come to be so"
        time.sleep(max(0.05, now - looked_at))
        looked_at = time.monotonic()
