"""QUERY_MESSAGE: messages by a key, their unique key or, with 5.4, their tag (QueryMessageProcessor.queryMessage)."""

from __future__ import annotations

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import FailureError, RefusalError, Request, ok
from rmqctl.sandbox.storage.message_index import TAG_PREFIX

from .send_checks import int32

# With this field the broker uses its own limit (MixAll.UNIQUE_MSG_QUERY_FLAG, defaultQueryMaxNum).
_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
_UNIQUE_KEY_COUNT = 32
# The one index type that is not the default (MessageConst.INDEX_TAG_TYPE).
_TAG_TYPE = "T"


def handle(broker: Broker, request: Request) -> Command:
    """Return the newest matches within the limit, oldest first."""
    is_unique = request.text(_UNIQUE_KEY_QUERY, "") == "true"
    limit = _UNIQUE_KEY_COUNT if is_unique else int32(request, "maxNum")
    limit = min(limit, broker.settings.number("maxMsgsNumBatch"))
    begin_ms, end_ms = request.number("beginTimestamp"), request.number("endTimestamp")
    if limit < 0:
        raise FailureError(f"java.lang.IllegalArgumentException: Illegal Capacity: {limit}")
    key = request.text("key", "")
    if broker.profile.is_5 and request.text("indexType", "") == _TAG_TYPE:
        key = TAG_PREFIX + key
    found = broker.store.find_by_key(request.text("topic", ""), key, limit, begin_ms, end_ms)
    last = broker.store.index.last_offset
    newest = None if last is None else broker.store.message_in_log(last)
    if not found or newest is None:
        remark = "can not find message, maybe time range not correct"
        raise RefusalError(ResponseCode.QUERY_NOT_FOUND, remark, indexLastUpdatePhyoffset=0, indexLastUpdateTimestamp=0)
    return ok(
        b"".join(message.record for message in found),
        indexLastUpdatePhyoffset=newest.commit_log_offset, indexLastUpdateTimestamp=newest.stored_at_ms,
    )  # fmt: skip
