"""A broker's state of pops: check-points, orderly queues, waiting requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rmqctl.protocol.command import Command

from .filters import EVERYTHING, Filter
from .holds import Hold
from .periodic import Periodic
from .pop_checkpoints import CheckPoints
from .pop_orders import OrderlyQueues
from .pop_revive import Revival
from .request import Request

if TYPE_CHECKING:
    from .broker import Broker

# How often partial acknowledgements of check-points are written.
_FLUSH_S = 5.0
_RETRY_FIRST_PERCENT = "popFromRetryProbability"

# Topic, group, and the queue id of the request, which is negative for all queues.
_Key = tuple[str, str, int]


class Waiting:
    """Waiting requests of one kind, by topic, group and queue id (PopLongPollingService)."""

    def __init__(self) -> None:
        self._holds: dict[_Key, dict[Hold, None]] = {}

    def count(self, key: _Key) -> int:
        """Return how many requests wait."""
        return len(self._holds.get(key, {}))

    def add(self, key: _Key, hold: Hold) -> None:
        """Add a waiting request."""
        self._holds.setdefault(key, {})[hold] = None

    def remove(self, key: _Key, hold: Hold) -> None:
        """Remove a waiting request."""
        holds = self._holds.get(key, {})
        holds.pop(hold, None)
        if not holds:
            self._holds.pop(key, None)

    def of(self, topic: str, group: str) -> list[Hold]:
        """Return all requests that wait for a group's topic."""
        return [hold for key, holds in self._holds.items() if key[:2] == (topic, group) for hold in holds]


class PopState:
    """Created at each start of the broker; check-points and orderly queues are read from the state store.

    Where real brokers choose at random, a counter decides: `next_turn()` numbers the pops.
    """

    def __init__(self, broker: Broker) -> None:
        self.check_points = CheckPoints(broker.state)
        self.orders = OrderlyQueues(broker.state)
        self.revival = Revival(broker, self.check_points)
        self.polling = Waiting()
        self.notifying = Waiting()
        self._broker = broker
        self._turn = 0
        self._revive_turn = -1
        self._flushing: Periodic | None = None

    def start(self) -> None:
        """Start reviving; do nothing on 4.9, which has no pops."""
        if not self._broker.profile.is_5:
            return
        self.revival.start()
        self._flushing = Periodic(self._broker.clock, _FLUSH_S, self.check_points.flush)

    def stop(self) -> None:
        """Stop reviving, and write what is not written yet."""
        if self._flushing is not None:
            self._flushing.stop()
        self.revival.stop()
        self.check_points.flush()

    def next_turn(self) -> int:
        """Return the number of the next pop: 1, 2 ..."""
        self._turn += 1
        return self._turn

    def is_retry_first(self, turn: int) -> bool:
        """Return whether a pop reads the retry topic first: as often as on real brokers, every fifth by default."""
        percent = self._broker.settings.number(_RETRY_FIRST_PERCENT)
        return turn * percent % 100 < percent

    def next_revive_queue(self) -> int:
        """Return the revive queue for a pop's handles, round robin."""
        self._revive_turn += 1
        return self._revive_turn % max(1, self._broker.settings.number("reviveQueueNum"))

    def wake(self, topic: str, group: str) -> None:
        """Wake the requests that wait for a group's topic."""
        for waiting in (self.polling, self.notifying):
            for hold in waiting.of(topic, group):
                self._broker.holds.wake(hold)

    def forget_queue(self, topic: str, group: str, queue_id: int) -> None:
        """Free a queue whose offset was reset, so that an orderly group pops from there immediately.

        Check-points stay, as on real brokers: messages in flight are redelivered through the retry topic.
        """
        self.orders.clear(topic, group, queue_id)
        self.wake(topic, group)

    def hold(
        self, waiting: Waiting, key: _Key, queues: list[tuple[str, int]], wait_ms: int, request: Request,
        run: Callable[[], Command | None], *, passing: Filter = EVERYTHING,
    ) -> None:  # fmt: skip
        """Hold a request until a message passes the filter or the time is over; then `run` resumes it once."""
        hold: Hold

        def wake(_: bool) -> None:
            waiting.remove(key, hold)
            self._broker.server.resume(request, run)

        hold = self._broker.holds.hold(
            queues, wait_ms / 1000, wake, owner=request.channel,
            accepts_code=passing.accepts_code, accepts_properties=passing.accepts_properties,
        )  # fmt: skip
        waiting.add(key, hold)
