"""NOTIFICATION: reports when a pop would get messages (NotificationProcessor)."""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import UNSET_REMARK, Request, ok

from .r200050_pop_message import POLL_MARGIN_MS, poll_end_ms
from .read_checks import (
    ReadTarget,
    hold_request,
    look_offset,
    require_group,
    require_readable_broker,
    require_topic,
    retry_topics,
    waited_for,
)

SINCE_5 = True

_NO_NEWS: dict[str, object] = {"hasMsg": False, "pollingFull": False}


def handle(broker: Broker, request: Request) -> Command | None:
    """Return whether a pop would get messages, immediately or as soon as it would. Raises RefusalError."""
    return _Notification(broker, request).run()


class _Notification:
    """One request; it runs again each time it is woken."""

    def __init__(self, broker: Broker, request: Request) -> None:
        self.broker = broker
        self.request = request
        self.target = ReadTarget.of(request)
        self.is_orderly = request.flag("order")
        self.attempt_id = request.text("attemptId", None)
        _, self.end_ms = poll_end_ms(broker, request)
        # When the first queue that an orderly pop holds becomes free.
        self.free_at_ms: int | None = None

    def run(self) -> Command | None:
        broker, target = self.broker, self.target
        require_readable_broker(broker, "peeking", _NO_NEWS)
        topic = require_topic(broker, self.request, target, _NO_NEWS)
        require_group(broker, target.group, _NO_NEWS)
        self.free_at_ms = None
        retries = [] if self.is_orderly else retry_topics(broker, target)
        queues = waited_for(broker, target, topic, retries)
        if any(self._has_news(name, queue_id) for name, queue_id in queues):
            return self._answer(has_news=True)
        return self._hold(queues)

    def _hold(self, queues: list[tuple[str, int]]) -> Command | None:
        broker, target = self.broker, self.target
        wait_ms = self.end_ms - POLL_MARGIN_MS - broker.now_ms()
        if self.request.number("pollTime", 0) <= 0 or wait_ms <= 0:
            return self._answer(has_news=False)
        state, key = broker.pop, (target.topic, target.group, target.queue_id)
        if state.notifying.count(key) > broker.settings.number("popPollingSize") or broker.holds.is_full:
            return self._answer(has_news=False, is_full=True)
        if self.free_at_ms is not None:
            wait_ms = min(wait_ms, self.free_at_ms - broker.now_ms())
        hold_request(broker, state.notifying, key, queues, wait_ms, self.request, self.run)
        return None

    def _has_news(self, topic: str, queue_id: int) -> bool:
        broker, group = self.broker, self.target.group
        if self.is_orderly:
            free_at_ms = broker.pop.orders.blocked_until_ms(topic, group, queue_id, self.attempt_id, broker.now_ms())
            if free_at_ms is not None:
                self.free_at_ms = min(free_at_ms, self.free_at_ms or free_at_ms)
                return False
        return broker.store.max_offset(topic, queue_id) > look_offset(broker, group, topic, queue_id)

    def _answer(self, *, has_news: bool, is_full: bool = False) -> Command:
        return ok(remark=UNSET_REMARK, hasMsg=has_news, pollingFull=is_full)
