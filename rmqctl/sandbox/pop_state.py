"""What a broker knows of pops: check-points, orderly queues, requests that wait."""

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

# How often acknowledgements of a part of a check-point are written.
_FLUSH_S = 5.0
_RETRY_FIRST_PERCENT = "popFromRetryProbability"

# Topic, group, and the queue id of the request, which is negative for all queues.
_Key = tuple[str, str, int]


class Waiting:
    """Requests of one kind that wait, by topic, group and queue id (PopLongPollingService)."""

    def __init__(self) -> None:
        self._holds: dict[_Key, dict[Hold, None]] = {}

    def count(self, key: _Key) -> int:
        """Return how many wait."""
        return len(self._holds.get(key, {}))

    def add(self, key: _Key, hold: Hold) -> None:
        """Note a request that waits."""
        self._holds.setdefault(key, {})[hold] = None

    def remove(self, key: _Key, hold: Hold) -> None:
        """Forget one."""
        holds = self._holds.get(key, {})
        holds.pop(hold, None)
        if not holds:
            self._holds.pop(key, None)

    def of(self, topic: str, group: str) -> list[Hold]:
        """Return all that wait for a topic in a group."""
        return [hold for key, holds in self._holds.items() if key[:2] == (topic, group) for hold in holds]


class PopState:
    """Made anew when the broker starts; check-points and orderly queues come back from the state store.

    Where real brokers throw dice, a counter decides: `next_turn()` numbers the pops.
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
        """Begin to revive; 4.9 has no pops."""
        if not self._broker.profile.is_5:
            return
        self.revival.start()
        self._flushing = Periodic(self._broker.clock, _FLUSH_S, self.check_points.flush)

    def stop(self) -> None:
        """Revive nothing more, and write what there is."""
        if self._flushing is not None:
            self._flushing.stop()
        self.revival.stop()
        self.check_points.flush()

    def next_turn(self) -> int:
        """Return the number of a pop: 1, 2 ..."""
        self._turn += 1
        return self._turn

    def is_retry_first(self, turn: int) -> bool:
        """Tell whether a pop reads the retry topic first: as often as real brokers do, every fifth by default."""
        percent = self._broker.settings.number(_RETRY_FIRST_PERCENT)
        return turn * percent % 100 < percent

    def next_revive_queue(self) -> int:
        """Return the revive queue that a pop's handles name; they take turns."""
        self._revive_turn += 1
        return self._revive_turn % max(1, self._broker.settings.number("reviveQueueNum"))

    def wake(self, topic: str, group: str) -> None:
        """Let requests that wait for a topic look again."""
        for waiting in (self.polling, self.notifying):
            for hold in waiting.of(topic, group):
                self._broker.holds.wake(hold)

    def forget_queue(self, topic: str, group: str, queue_id: int) -> None:
        """Free a queue whose offset was set anew, so that an orderly group pops from there at once.

        Check-points stay, as on real brokers: what is out comes back through the retry topic.
        """
        self.orders.clear(topic, group, queue_id)
        self.wake(topic, group)

    def hold(
        self, waiting: Waiting, key: _Key, queues: list[tuple[str, int]], wait_ms: int, request: Request,
        run: Callable[[], Command | None], *, passing: Filter = EVERYTHING,
    ) -> None:  # fmt: skip
        """Let a request wait for messages that pass; `run` goes on with it once, then or when the time is over."""
        hold: Hold

        def wake(_: bool) -> None:
            waiting.remove(key, hold)
            self._broker.server.resume(request, run)

        hold = self._broker.holds.hold(
            queues, wait_ms / 1000, wake, owner=request.channel,
            accepts_code=passing.accepts_code, accepts_properties=passing.accepts_properties,
        )  # fmt: skip
        waiting.add(key, hold)
