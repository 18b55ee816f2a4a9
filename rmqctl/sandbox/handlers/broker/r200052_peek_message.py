"""PEEK_MESSAGE: the messages that a pop would get (PeekMessageProcessor)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import Request, answer
from rmqctl.sandbox.storage.store import GetStatus

from .read_checks import ReadTarget, look_offset, require_group, require_readable_broker, require_topic, retry_topics

SINCE_5 = True

_NO_POP: dict[str, object] = {"popTime": 0, "invisibleTime": 0, "reviveQid": 0, "restNum": 0}


def handle(broker: Broker, request: Request) -> Command:
    """Return the next messages without any change. Raises RefusalError."""
    require_readable_broker(broker, "peeking", _NO_POP)
    target, max_count = ReadTarget.of(request), request.number("maxMsgNums", 0)
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
