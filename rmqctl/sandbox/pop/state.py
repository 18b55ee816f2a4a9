"""A broker's state of pops: check-points, orderly queues, waiting requests."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.net.clock import Clock
from rmqctl.sandbox.delivery.held_requests import HeldRequest, HeldRequests
from rmqctl.sandbox.periodic import Periodic
from rmqctl.sandbox.settings import ServerSettings
from rmqctl.sandbox.storage.state import StateStore

from .check_points import CheckPoint, CheckPoints
from .orders import OrderlyQueues
from .revival import Revival

# How often partial acknowledgements of check-points are written.
_FLUSH_S = 5.0
_RETRY_FIRST_PERCENT = "popFromRetryProbability"
_PRIORITY_RETRY_FIRST_PERCENT = "popFromRetryProbabilityForPriority"

# Topic, group, and the queue id of the request, which is negative for all queues.
WaitKey = tuple[str, str, int]


def is_chosen(turn: int, percent: int) -> bool:
    """Return whether a turn is among these percent of all, evenly spread."""
    return turn * percent % 100 < percent


class PollingRequests:
    """Waiting requests of one kind, by topic, group and queue id (PopLongPollingService)."""

    def __init__(self) -> None:
        self._holds: dict[WaitKey, dict[HeldRequest, None]] = {}

    def count(self, key: WaitKey) -> int:
        """Return how many requests wait."""
        return len(self._holds.get(key, {}))

    def add(self, key: WaitKey, hold: HeldRequest) -> None:
        """Add a waiting request."""
        self._holds.setdefault(key, {})[hold] = None

    def remove(self, key: WaitKey, hold: HeldRequest) -> None:
        """Remove a waiting request."""
        holds = self._holds.get(key, {})
        holds.pop(hold, None)
        if not holds:
            self._holds.pop(key, None)

    def of(self, topic: str, group: str) -> list[HeldRequest]:
        """Return all requests that wait for a group's topic."""
        return [hold for key, holds in self._holds.items() if key[:2] == (topic, group) for hold in holds]


class PopState:
    """Created at each start of the broker; check-points and orderly queues are read from the state store.

    Where real brokers choose at random, a counter decides: `next_turn()` numbers the pops.
    """

    def __init__(
        self, clock: Clock, now_ms: Callable[[], int], settings: ServerSettings, state: StateStore, holds: HeldRequests,
        revive_messages: Callable[[CheckPoint], list[int]],
    ) -> None:  # fmt: skip
        self.check_points = CheckPoints(state)
        self.orders = OrderlyQueues(state)
        self.revival = Revival(clock, now_ms, self.check_points, revive_messages)
        self.polling = PollingRequests()
        self.notifying = PollingRequests()
        self._clock = clock
        self._settings = settings
        self._holds = holds
        self._turn = 0
        self._revive_turn = -1
        self._flushing: Periodic | None = None

    def start(self) -> None:
        """Start reviving."""
        self.revival.start()
        self._flushing = Periodic(self._clock, _FLUSH_S, self.check_points.flush)

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

    def is_retry_first(self, turn: int, *, by_priority: bool = False) -> bool:
        """Return whether a pop reads the retry topic first: as often as on real brokers, every fifth by default."""
        name = _PRIORITY_RETRY_FIRST_PERCENT if by_priority else _RETRY_FIRST_PERCENT
        return is_chosen(turn, self._settings.number(name))

    def next_revive_queue(self) -> int:
        """Return the revive queue for a pop's handles, round robin."""
        self._revive_turn += 1
        return self._revive_turn % max(1, self._settings.number("reviveQueueNum"))

    def wake(self, topic: str, group: str) -> None:
        """Wake the requests that wait for a group's topic."""
        for waiting in (self.polling, self.notifying):
            for hold in waiting.of(topic, group):
                self._holds.wake(hold)

    def forget_queue(self, topic: str, group: str, queue_id: int) -> None:
        """Free a queue whose offset was reset, so that an orderly group pops from there immediately.

        Check-points stay, as on real brokers: messages in flight are redelivered through the retry topic.
        """
        self.orders.clear(topic, group, queue_id)
        self.wake(topic, group)
