"""SEND_REPLY_MESSAGE: hand a reply to the producer that waits for it (ReplyMessageProcessor)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rmqctl.protocol.codes import RequestCode, ResponseCode
from rmqctl.protocol.command import Command
from rmqctl.protocol.message_id import encode_offset_id
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.request import FailureError, RefusalError, Request, answer, java_text
from rmqctl.sandbox.storage.store import NewMessage
from rmqctl.sandbox.storage.stored_text import join_properties, split_properties

from .r010_send_message import choose_queue, region_fields
from .relay import ask_member
from .send_checks import SendFields, find_topic, read_fields

logger = logging.getLogger("rmqctl.sandbox")

_TIMEOUT_S = 10.0
_REPLY_TO = "REPLY_TO_CLIENT"
_PUSHED_AT_MS = "PUSH_REPLY_TIME"


async def handle(broker: Broker, request: Request) -> Command:
    """Push the reply to the producer, wait for its answer, and store the reply either way."""
    region = region_fields(broker)
    fields = read_fields(request, broker.profile)
    properties, text = split_properties(fields.properties), fields.properties.encode()
    if broker.profile.is_5:
        properties |= region
        text = join_properties(properties, broker.profile)
    try:
        queue_id = choose_queue(fields, find_topic(broker, fields))
    except FailureError:
        raise
    except RefusalError as refusal:
        raise RefusalError(refusal.code, refusal.remark, **region) from None
    failure = await _push(broker, request, fields, properties)
    places: dict[str, Any] = {} if failure else {"msgId": "0", "queueId": queue_id, "queueOffset": 0}
    if broker.settings.flag("storeReplyMessageEnable"):
        places |= _store(broker, fields, queue_id, properties, text)
    code = ResponseCode.SYSTEM_ERROR if failure else ResponseCode.SUCCESS
    return answer(code, failure, **places, **region)


async def _push(broker: Broker, request: Request, fields: SendFields, properties: Mapping[str, str]) -> str | None:
    """Return why the producer did not get the reply, None when it did."""
    client_id = properties.get(_REPLY_TO)
    if client_id is None:
        return f"reply message properties[{_REPLY_TO}] is null"
    channel = broker.producers.find(client_id)
    if channel is None:
        return f"push reply message fail, channel of <{client_id}> not found."
    pushed = {**properties, _PUSHED_AT_MS: str(broker.now_ms())}
    header = {
        "bornHost": request.channel.address, "storeHost": broker.address, "storeTimestamp": broker.now_ms(),
        "producerGroup": fields.producer_group, "topic": fields.topic, "defaultTopic": fields.default_topic,
        "defaultTopicQueueNums": fields.default_queue_count, "queueId": fields.queue_id, "sysFlag": fields.sys_flag,
        "bornTimestamp": fields.born_at_ms, "flag": fields.flag, "reconsumeTimes": fields.reconsume_times,
        "unitMode": fields.is_unit, "properties": join_properties(pushed, broker.profile).decode(),
    }  # fmt: skip
    texts = {name: java_text(value) for name, value in header.items() if value is not None}
    push = Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, texts, fields.body)
    response = await ask_member(broker, channel, push, _TIMEOUT_S)
    if response is None or response.code != ResponseCode.SUCCESS:
        return f"push reply message to {client_id}fail."
    return None


def _store(
    broker: Broker, fields: SendFields, queue_id: int, properties: dict[str, str], text: bytes
) -> dict[str, Any]:
    """Store the reply and return its place; nothing for a reply that cannot be stored."""
    message = NewMessage(
        topic=fields.topic, queue_id=queue_id, body=fields.body, properties=properties, flag=fields.flag,
        born_at_ms=fields.born_at_ms, born_host=fields.born_host, reconsume_times=fields.reconsume_times, text=text,
    )  # fmt: skip
    try:
        placed = broker.put(message)
    except RefusalError as refusal:
        logger.warning("%s: a reply was not stored: %s", broker.name, refusal.remark)
        return {}
    offset_id = encode_offset_id(*broker.store_host, placed.commit_log_offset)
    return {"msgId": offset_id, "queueId": queue_id, "queueOffset": placed.queue_offset}
