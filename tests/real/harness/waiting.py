"""Waiting for what a cluster, a client or a process comes to by itself."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(what: Callable[[], object], timeout_s: float = 20, why: Callable[[], object] | None = None) -> None:
    """Look until it is so."""
    give_up_at = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < give_up_at, why() if why is not None else "it did not come to be so"
        time.sleep(0.05)
