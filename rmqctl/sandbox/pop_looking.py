"""Previews of a pop, without a pop (PeekMessageProcessor, NotificationProcessor, PollingInfoProcessor)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command

from .broker import Broker
from .pop import POLL_MARGIN_MS, poll_end_ms
from .pop_checks import (
    Target,
    look_offset,
    require_group,
    require_readable_broker,
    require_topic,
    retry_topics,
    waited_for,
)
from .request import UNSET_REMARK, Request, answer, ok
from .store import GetStatus

_NO_POP: dict[str, object] = {"popTime": 0, "invisibleTime": 0, "reviveQid": 0, "restNum": 0}
_NO_NEWS: dict[str, object] = {"hasMsg": False, "pollingFull": False}
_NO_POLLS: dict[str, object] = {"pollingNum": 0}


def peek(broker: Broker, request: Request) -> Command:
    """Return the next messages without any change. Raises RefusalError."""
    require_readable_broker(broker, "peeking", _NO_POP)
    target, max_count = Target.of(request), request.number("maxMsgNums", 0)
    topic = require_topic(broker, request, target, _NO_POP)
    require_group(broker, target.group, _NO_POP)
    turn = broker.pop.next_turn()
    queues = [(target.topic, queue_id) for queue_id in target.queue_ids(topic, turn)]
    retries = [(name, 0) for name in retry_topics(broker, target) if broker.topics.find(name) is not None]
    parts: list[bytes] = []
    count = rest = 0
    for name, queue_id in retries + queues if broker.pop.is_retry_first(turn) else queues + retries:
        offset = look_offset(broker, target.group, name, queue_id)
        rest += broker.store.max_offset(name, queue_id) - offset
        if count < max_count:
            got = broker.store.get(name, queue_id, offset, max_count - count)
            if got.status in (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY):
                got = broker.store.get(name, queue_id, got.next_offset, max_count - count)
            parts.append(got.body)
            count += len(got.offsets)
    if count:
        return _peeked(ResponseCode.SUCCESS, "FOUND", b"".join(parts), rest)
    return _peeked(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", b"", rest)


def _peeked(code: ResponseCode, remark: str, body: bytes, rest: int) -> Command:
    return answer(code, remark, body, popTime=0, invisibleTime=0, reviveQid=0, restNum=rest)


def polling_info(broker: Broker, request: Request) -> Command:
    """Return how many pops of a group wait for a queue, or for all queues. Raises RefusalError."""
    require_readable_broker(broker, "polling info", _NO_POLLS)
    target = Target.of(request)
    require_topic(broker, request, target, _NO_POLLS)
    require_group(broker, target.group, _NO_POLLS)
    count = broker.pop.polling.count((target.topic, target.group, target.queue_id))
    return ok(remark=UNSET_REMARK, pollingNum=count)


def notification(broker: Broker, request: Request) -> Command | None:
    """Return whether a pop would get messages, immediately or as soon as it would. Raises RefusalError."""
    return _Notification(broker, request).run()


class _Notification:
    """One request; it runs again each time it is woken."""

    def __init__(self, broker: Broker, request: Request) -> None:
        self.broker = broker
        self.request = request
        self.target = Target.of(request)
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
        queues = waited_for(target, topic, retries)
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
        state.hold(state.notifying, key, queues, wait_ms, self.request, self.run)
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
