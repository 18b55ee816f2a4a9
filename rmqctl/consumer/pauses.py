"""Which queues of a consumer wait, because its program or a broker wants that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from rmqctl.model.queue import MessageQueue

from .process_queue import ProcessQueue


class Pauses:
    """Pauses of the held `queues`. `require` returns one, or raises RefusedError."""

    def __init__(
        self, queues: Mapping[MessageQueue, ProcessQueue], require: Callable[[MessageQueue], ProcessQueue]
    ) -> None:
        self._queues = queues
        self._require = require
        self._suspended_count = 0
        # Also the queues that are taken later.
        self.is_all_paused = False
        # At the end, what is paused is left, and the rest must not wait.
        self.is_over = False

    @property
    def is_suspended(self) -> bool:
        """Whether nothing is pulled."""
        return self._suspended_count > 0

    def suspend(self) -> None:
        """Stop pulling until unsuspend() has been called as often as this method."""
        self._suspended_count += 1

    def unsuspend(self) -> None:
        """Undo one suspend()."""
        self._suspended_count -= 1

    def pause(self, mqs: Collection[MessageQueue]) -> None:
        """Pass on no messages of these queues, or, for none, of all, also of those that are taken later.

        Raises RefusedError for a queue that is not held. Any thread may call it, and resume().
        """
        self._set(mqs, is_paused=True)

    def resume(self, mqs: Collection[MessageQueue]) -> None:
        """Undo pause(), for these queues, or for everything. Raises RefusedError for a queue that is not held."""
        self._set(mqs, is_paused=False)

    def _set(self, mqs: Collection[MessageQueue], *, is_paused: bool) -> None:
        queues = [self._require(mq) for mq in mqs]
        if not mqs and not self.is_over:
            self.is_all_paused, queues = is_paused, list(self._queues.values())
        for queue in queues:
            queue.is_paused = is_paused
