"""POP_MESSAGE: messages that are redelivered unless acknowledged (PopMessageProcessor)."""

from __future__ import annotations

from collections.abc import Iterator

from rmqctl.net.clock import ahead_ms
from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message import StoredMessage, iter_messages
from rmqctl.protocol.properties import encode_properties
from rmqctl.protocol.record import copy_record
from rmqctl.rules.pop_handles import ORDERLY_REVIVE_QUEUE, POP_CK, Handle, OffsetInfo
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.pop.orders import OrderInfo
from rmqctl.sandbox.pop.state import is_chosen
from rmqctl.sandbox.request import RefusalError, Request, answer
from rmqctl.sandbox.storage.store import GetMessageResult, GetStatus

from .pop_records import add_check_point
from .read_checks import (
    ReadTarget,
    begin_offset,
    hold_request,
    read_filter,
    require_group,
    require_readable_broker,
    require_topic,
    retry_topics,
    rotated,
    waited_for,
)

SINCE_5 = True

MAX_POP_COUNT = 32
# PopMessageRequestHeader.isTimeoutTooMuch
_LATE_MS = 500
# PopRequest.isTimeout: a wait ends this long before the client expects it to.
POLL_MARGIN_MS = 50

_NOTHING: dict[str, object] = {"popTime": 0, "invisibleTime": 0, "reviveQid": 0, "restNum": 0}
_ILLEGAL_OFFSET = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY)


def handle(broker: Broker, request: Request) -> Command | None:
    """Answer a pop, or hold it until bornTime + pollTime. Raises RefusalError."""
    return _Pop(broker, request).run()


def poll_end_ms(broker: Broker, request: Request) -> tuple[int, int]:
    """Return when a request was born and when its wait ends, in ms; without bornTime it was born now."""
    now_ms = broker.now_ms()
    born_ms = request.number("bornTime", 0) or now_ms
    lead_ms = ahead_ms(broker.clock)
    if abs(now_ms - lead_ms - born_ms) < abs(now_ms - born_ms):
        born_ms += lead_ms  # the clocks of clients outside of this process do not jump
    return born_ms, born_ms + request.number("pollTime", 0)


class _Pop:
    """One pop request; it runs again each time it is woken."""

    def __init__(self, broker: Broker, request: Request) -> None:
        self.broker = broker
        self.request = request
        self.target = ReadTarget.of(request)
        self.max_count = request.number("maxMsgNums", 0)
        self.invisible_ms = request.number("invisibleTime", 0)
        self.init_mode = request.number("initMode", 0)
        self.is_orderly = request.flag("order")
        self.attempt_id = request.text("attemptId", None)
        self.born_ms, self.end_ms = poll_end_ms(broker, request)

    def run(self) -> Command | None:
        self._check()
        self.info = OffsetInfo()
        self.parts: list[bytes] = []
        self.count = self.rest = 0
        self.has_skipped = False
        self.free_at_ms: int | None = None
        self.pop_time_ms = self.broker.now_ms()
        self.revive_queue_id = ORDERLY_REVIVE_QUEUE if self.is_orderly else self.broker.pop.next_revive_queue()
        self._read()
        if self.parts:
            return self._answer(ResponseCode.SUCCESS, "FOUND")
        code = self._hold()
        return None if code is None else self._answer(code, "NO_MESSAGE_IN_QUEUE")

    def _check(self) -> None:
        broker, request, target = self.broker, self.request, self.target
        if broker.now_ms() - self.end_ms > _LATE_MS:
            remark = f"the broker[{broker.store_host_text}] pop message is timeout too much"
            raise RefusalError(ResponseCode.POLLING_TIMEOUT, remark, **_NOTHING)
        require_readable_broker(broker, "pop", _NOTHING)
        if self.max_count > MAX_POP_COUNT:
            remark = f"the broker[{broker.store_host_text}] pop message's num is greater than {MAX_POP_COUNT}"
            raise RefusalError(ResponseCode.INVALID_PARAMETER, remark, **_NOTHING)
        if not broker.settings.flag("timerWheelEnable"):
            remark = f"the broker[{broker.store_host_text}] pop message is forbidden because timerWheelEnable is false"
            raise RefusalError(ResponseCode.SYSTEM_ERROR, remark, **_NOTHING)
        self.topic = require_topic(broker, request, target, _NOTHING)
        require_group(broker, target.group, _NOTHING)
        self.filter = read_filter(request, target.topic, _NOTHING)
        if self.max_count < 0:
            remark = f"java.lang.IllegalArgumentException: Illegal Capacity: {self.max_count}"
            raise RefusalError(ResponseCode.SYSTEM_ERROR, remark)

    def _read(self) -> None:
        target, turn = self.target, self.broker.pop.next_turn()
        by_priority = self._is_by_priority(turn)
        retry_names = [] if self.is_orderly else retry_topics(self.broker, target)
        if turn % 2 == 0:
            retry_names.reverse()
        retry_first = not self.is_orderly and self.broker.pop.is_retry_first(turn, by_priority=by_priority)
        if by_priority:
            turn = 0  # it starts at the first queue
        is_descending = self.broker.settings.flag("priorityOrderAsc")
        if retry_first:
            self._read_retry(retry_names, turn, is_descending)
        for queue_id in target.queue_ids(self.topic, turn, is_descending=is_descending):
            self._read_queue(target.topic, queue_id)
        if not retry_first and self.count < self.max_count:
            self._read_retry(retry_names, turn, is_descending)

    def _is_by_priority(self, turn: int) -> bool:
        """Return whether the queues are read in the order of their priorities (usePriorityMode)."""
        if self.is_orderly or self.topic.attributes.get("message.type") != "PRIORITY":
            return False
        config = self.broker.groups.find(self.target.group)
        attributes = {} if config is None else config["attributes"]
        return is_chosen(turn, int(attributes.get("priority.factor", "100")))

    def _read_retry(self, names: list[str], turn: int, is_descending: bool) -> None:
        """Read retry topics until one has messages: handles cannot distinguish two of them."""
        for name in names:
            topic, before = self.broker.topics.find(name), self.count
            for queue_id in [] if topic is None else rotated(topic.read_queue_count, turn, is_descending=is_descending):
                self._read_queue(name, queue_id)
            if self.count > before:
                return

    def _read_queue(self, topic: str, queue_id: int) -> None:
        broker, group = self.broker, self.target.group
        offset = begin_offset(broker, group, topic, queue_id, self.init_mode)
        if self.is_orderly:
            now_ms = broker.now_ms()
            free_at_ms = broker.pop.orders.blocked_until_ms(topic, group, queue_id, self.attempt_id, now_ms)
            if free_at_ms is not None:
                self.free_at_ms = min(free_at_ms, self.free_at_ms or free_at_ms)
                return
        if self.count >= self.max_count:
            self.rest += broker.store.max_offset(topic, queue_id) - offset
            return
        got = self._get(topic, queue_id, offset)
        if got.status in _ILLEGAL_OFFSET:
            broker.offsets.store(group, topic, queue_id, got.next_offset)
            got = self._get(topic, queue_id, got.next_offset)
        if got.offsets:
            self._take(topic, queue_id, offset, got)
        elif got.status is GetStatus.NO_MATCHED_MESSAGE:
            self.has_skipped = True
            broker.offsets.store(group, topic, queue_id, got.next_offset)
        self.rest += got.max_offset - got.next_offset

    def _get(self, topic: str, queue_id: int, offset: int) -> GetMessageResult:
        return self.broker.store.get(
            topic, queue_id, offset, self.max_count - self.count,
            accepts_code=self.filter.accepts_code, accepts_message=self.filter.accepts_message,
        )  # fmt: skip

    def _take(self, topic: str, queue_id: int, offset: int, got: GetMessageResult) -> None:
        broker, group, state = self.broker, self.target.group, self.broker.pop
        if self.is_orderly:
            batch = OrderInfo(self.attempt_id, self.pop_time_ms, self.invisible_ms, list(got.offsets))
            state.orders.hold(topic, group, queue_id, batch, self.info)
            broker.offsets.store(group, topic, queue_id, offset)
        else:
            add_check_point(
                broker, group, topic, queue_id, offset, got.offsets, self.pop_time_ms, self.invisible_ms,
                self.revive_queue_id,
            )  # fmt: skip
            broker.offsets.store(group, topic, queue_id, got.next_offset)
        self.info.add(topic, queue_id, offset, got.offsets)
        self.count += len(got.offsets)
        if topic == self.target.topic:
            self.parts.append(got.body)
        else:
            self.parts += self._with_handles(topic, offset, got.body)
        key = f"{topic}@{group}"
        broker.stats.add("GROUP_GET_NUMS", key, len(got.offsets))
        broker.stats.add("GROUP_GET_SIZE", key, len(got.body))
        broker.stats.add("BROKER_GET_NUMS", broker.cluster, len(got.offsets), 0)

    def _with_handles(self, topic: str, start_offset: int, body: bytes) -> Iterator[bytes]:
        """Return retry messages as clients receive them: under the requested topic, with their handles."""
        handle = Handle(start_offset, self.pop_time_ms, self.invisible_ms, self.revive_queue_id, self.broker.name)
        for message in iter_messages(body):
            text = handle.to_text(topic, message.queue_id, message.queue_offset)
            yield _with_handle(message, self.target.topic, text)

    def _hold(self) -> ResponseCode | None:
        """Hold the request; return the code to answer with when that is not possible."""
        broker, target, state = self.broker, self.target, self.broker.pop
        wait_ms = self.end_ms - POLL_MARGIN_MS - broker.now_ms()
        if self.request.number("pollTime", 0) <= 0 or wait_ms <= 0:
            return ResponseCode.POLLING_TIMEOUT
        key = (target.topic, target.group, target.queue_id)
        if state.polling.count(key) > broker.settings.number("popPollingSize") or broker.holds.is_full:
            return ResponseCode.POLLING_FULL
        if self.has_skipped and self.rest > 0:
            wait_ms = 0  # a read scans a limited number of messages; more follow the skipped ones
        if self.free_at_ms is not None:
            wait_ms = min(wait_ms, self.free_at_ms - broker.now_ms())
        queues = waited_for(broker, target, self.topic, [] if self.is_orderly else retry_topics(broker, target))
        hold_request(broker, state.polling, key, queues, wait_ms, self.request, self.run, passing=self.filter)
        return None

    def _answer(self, code: ResponseCode, remark: str) -> Command:
        return answer(
            code, remark, b"".join(self.parts), popTime=self.pop_time_ms, invisibleTime=self.invisible_ms,
            reviveQid=self.revive_queue_id, restNum=self.rest, startOffsetInfo=self.info.starts,
            msgOffsetInfo=self.info.offsets, orderCountInfo=self.info.counts if self.is_orderly else None,
        )  # fmt: skip


def _with_handle(message: StoredMessage, topic: str, handle: str) -> bytes:
    """Return a message's record under another topic, with its handle unless it already has one."""
    properties = encode_properties({POP_CK: handle, **message.properties}).encode()
    return copy_record(message, topic=topic.encode(), properties=properties)
