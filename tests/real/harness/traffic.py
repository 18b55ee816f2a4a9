"""Messages that Java's producer sends all the time, while members of a group come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .cluster import Cluster


class Traffic:
    """Messages that are sent all the time, some each moment; `sent_at_s` has about when each was."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.sent_at_s: dict[str, float] = {}
        self._cluster, self._topic = cluster, topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        number = 0
        while not self._is_over.wait(0.1):
            prefix = f"t{number}-"
            self.sent_at_s |= dict.fromkeys((f"{prefix}{index}" for index in range(16)), time.time())
            self._cluster.java.produce(self._topic, 16, prefix=prefix)
            number += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send meanwhile."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()
