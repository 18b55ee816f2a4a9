"""RECALL_MESSAGE: recall a message that waits for its time (RecallMessageProcessor)."""

from __future__ import annotations

import base64
from typing import Any

from rmqctl.protocol.codes import ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.flags import Permission
from rmqctl.protocol.properties import TAGS, UNIQ_KEY
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.delivery.timers import TIMER_DEL_UNIQKEY, TIMER_DELIVER_MS, delete_key
from rmqctl.sandbox.request import UNSET_REMARK, RefusalError, Request, ok
from rmqctl.sandbox.storage.store import NewMessage

SINCE_5 = True

_VERSION = "v1"
# RecallMessageProcessor.RECALL_MESSAGE_TAG.
_TAG = "_RECALL_TAG_"
_PGROUP = "PGROUP"
_BORN_TIMESTAMP = "BORN_TIMESTAMP"


def recall_handle(topic: str, broker_name: str, at_ms: int, unique_key: str) -> str:
    """Return the handle with which a producer recalls a message (RecallMessageHandle.HandleV1)."""
    text = f"{_VERSION} {topic} {broker_name} {at_ms} {unique_key}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def handle(broker: Broker, request: Request) -> Command:
    """Store a message that cancels another one when both are due. Raises RefusalError."""
    region: dict[str, Any] = {"MSG_REGION": broker.settings.text("regionId")}
    try:
        message = _recalling_message(broker, request)
        broker.put(message)
    except RefusalError as refusal:
        raise RefusalError(refusal.code, refusal.remark, **region) from None
    return ok(remark=UNSET_REMARK, msgId=message.properties[UNIQ_KEY], **region)


def _recalling_message(broker: Broker, request: Request) -> NewMessage:
    if not broker.settings.flag("recallMessageEnable"):
        raise RefusalError(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    if not broker.permission & Permission.WRITE:
        raise RefusalError(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
    topic = request.text("topic", "")
    if broker.topics.find(topic) is None:
        raise RefusalError(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{topic}] not exist")
    real_topic, broker_name, at_text, unique_key = _read_handle(request.text("recallHandle", ""))
    if real_topic != topic:
        raise _illegal("topic not match")
    if broker_name != broker.name:
        raise _illegal("broker service not available")
    now_ms = broker.now_ms()
    left_ms = (int(at_text) if at_text.isascii() and at_text.isdigit() else -1) - now_ms
    if not 0 < left_ms < broker.settings.number("timerMaxDelaySec") * 1000:
        raise _illegal("timestamp invalid")
    properties = {
        TAGS: _TAG, TIMER_DEL_UNIQKEY: delete_key(topic, unique_key, broker.settings), UNIQ_KEY: unique_key,
        TIMER_DELIVER_MS: at_text, _BORN_TIMESTAMP: str(now_ms), _PGROUP: request.text("producerGroup", ""),
    }  # fmt: skip
    return NewMessage(
        topic=topic, queue_id=0, body=b"0", properties=properties, born_at_ms=now_ms, born_host=request.channel.host
    )


def _read_handle(handle: str) -> list[str]:
    try:
        version, *parts = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4)).decode().split(" ")
    except ValueError:
        version, parts = "", []
    if version != _VERSION or len(parts) < 4:
        raise RefusalError(ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid")
    return parts[:4]


def _illegal(reason: str) -> RefusalError:
    return RefusalError(ResponseCode.ILLEGAL_OPERATION, f"recall failed, {reason}")
