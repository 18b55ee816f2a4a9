"""Messages that Java's producer sends all the time, while members of a group come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .cluster import Cluster
from .workbench import WorkbenchError


class Traffic:
    """Messages that are sent all the time, some each moment; `sent_at_s` has about when each was.

    A broker that is too busy refuses some now and then: those, of which a part may be stored, are not in `bodies`.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.sent_at_s: dict[str, float] = {}
        self._refused: set[str] = set()
        self._cluster, self._topic = cluster, topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)

    @property
    def bodies(self) -> set[str]:
        """Return what is stored, or about to be."""
        return set(self.sent_at_s) - self._refused

    def _send(self) -> None:
        number = 0
        while not self._is_over.wait(0.1):
            prefix = f"t{number}-"
            bodies = {f"{prefix}{index}" for index in range(16)}
            self.sent_at_s |= dict.fromkeys(bodies, time.time())
            try:
                self._cluster.java.produce(self._topic, 16, prefix=prefix)
            except WorkbenchError:
                self._refused |= bodies
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
