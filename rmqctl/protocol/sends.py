"""Requests that store messages: sent one by one, in batches, or sent back by a consumer; and what is answered."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

from msgspec import Struct

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sending import OutgoingMessage, SendStatus

from .codes import RequestCode, ResponseCode
from .command import Command
from .flags import COMPRESSION_ZLIB, MessageFlag
from .headers import int_field
from .message import StoredMessage
from .properties import KEYS, TAGS, encode_properties, split_keys

WAIT = "WAIT"
DELAY = "DELAY"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
RETRY_TOPIC = "RETRY_TOPIC"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
TRAN_MSG = "TRAN_MSG"

# Answers that mean: stored.
STORED: Mapping[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}

# DefaultMQProducer.maxMessageSize, maxMessageSize of brokers.
MAX_BODY_BYTES = 4 * 1024 * 1024
# The length has 16 bits.
_MAX_PROPERTIES_BYTES = 32_767
# Room for the unique key, and for what brokers add (CLUSTER, MSG_REGION ...). They refuse a message that gets too long
# by that, but 4.9 stores it as a part of a batch, can't read its log from there on, and hands out no message any more.
_ADDED_PROPERTIES_BYTES = 1_024
# What brokers add to each message of a batch that they store: fixed fields, hosts, CLUSTER.
_STORED_EXTRA_BYTES = 512
# DefaultMQProducer.compressMsgBodyOverHowmuch, compressLevel.
_COMPRESSED_FROM_BYTES = 4096
_COMPRESSION_LEVEL = 5

# What brokers are told to take as a model for a topic that they do not have (MixAll.AUTO_CREATE_TOPIC_KEY_TOPIC).
_DEFAULT_TOPIC, _DEFAULT_QUEUE_COUNT = "TBW102", 4

_BATCH_HEAD = struct.Struct(">iiiii")  # size, magic, CRC, flag, body length
_SHORT = struct.Struct(">h")

# The delay level of the first retry; each further one takes the next.
_FIRST_LEVEL = 3
# A half message would stay invisible; the delay is another one.
_NOT_RETRIED = ("", TRAN_MSG, DELAY)

# Names that an application can't use (MessageConst.STRING_HASH_SET of 5.4.0).
RESERVED = frozenset({
    "1ST_POP_TIME", "ARRIVE_TIME", "BORN_TIMESTAMP", "BUYER_ID", "CLUSTER", "CONSUME_START_TIME", "CORRECTION_FLAG",
    "CORRELATION_ID", "DELAY", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC", "DUP_INFO", "EXTEND_UNIQ_INFO",
    "INNER_MULTI_QUEUE_OFFSET", "INSTANCE_ID", "KEYS", "MAX_OFFSET", "MAX_RECONSUME_TIMES", "MIN_OFFSET",
    "MQ2_FLAG", "MSG_REGION", "MSG_TYPE", "ORIGIN_GROUP", "ORIGIN_MESSAGE_ID", "PGROUP", "POP_CK", "POP_CK_OFFSET",
    "PUSH_REPLY_TIME", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME", "REPLY_TO_CLIENT", "RETRY_TOPIC", "TAGS",
    "TIMER_DELAY_LEVEL", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY",
    "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS", "TIMER_OUT_MS", "TIMER_ROLL_TIMES", "TRACE_ON", "TRANSFER_FLAG",
    "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET", "TTL", "UNIQ_KEY", "WAIT", "_SYS_MSG_PRIORITY_", "__BORNHOST",
    "__CRC32#", "INNER_NUM", "INNER_BASE",
})  # fmt: skip


def message_properties(
    *, keys: Iterable[str] = (), tag: str | None = None, properties: Mapping[str, str] | None = None,
    delay_level: int = 0, delay_ms: int | None = None, deliver_at_ms: int | None = None,
) -> dict[str, str]:  # fmt: skip
    """Return the properties of a new message (Message). Raises ValueError for what would not come back as it was given.

    Brokers from 5.0 on keep a message for `delay_ms`, or until `deliver_at_ms`; older ones look at levels only.
    """
    for name, value in (properties or {}).items():
        if name in RESERVED:
            raise ValueError(f"the property {name} is RocketMQ's own")
        if not name or not value:
            raise ValueError("a property needs a name and a value")
    made = {**(properties or {}), WAIT: "true"}
    if given := tuple(keys):
        if bad := [key for key in given if split_keys(key) != [key]]:
            raise ValueError(f"{bad[0]!r} is no key: keys are kept in one text, with blanks between them")
        made[KEYS] = " ".join(given)
    if tag is not None:
        if not tag or tag != tag.strip() or "||" in tag or tag == "*":
            raise ValueError(f"{tag!r} is no tag: nobody could subscribe to it alone")
        made[TAGS] = tag
    if delay_level:
        made[DELAY] = str(delay_level)
    if delay_ms is not None:
        made[TIMER_DELAY_MS] = str(delay_ms)
    if deliver_at_ms is not None:
        made[TIMER_DELIVER_MS] = str(deliver_at_ms)
    properties_text(made, room_bytes=_ADDED_PROPERTIES_BYTES)
    return made


def needs_timer(properties: Mapping[str, str]) -> bool:
    """Tell a message that only brokers from 5.0 on keep until its time. A level goes before a time."""
    return DELAY not in properties and (TIMER_DELAY_MS in properties or TIMER_DELIVER_MS in properties)


def properties_text(properties: Mapping[str, str], *, room_bytes: int = 0) -> str:
    """Return properties as they are sent. Raises ValueError for what brokers can't store with so much more."""
    text = encode_properties(properties)
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("a key, tag or property is not valid Unicode") from None
    if size_bytes > _MAX_PROPERTIES_BYTES - room_bytes:
        limit = _MAX_PROPERTIES_BYTES - room_bytes
        raise ValueError(f"keys, tag and properties have {size_bytes} bytes; {limit} can be stored")
    return text


def send_message(group: str, mq: MessageQueue, message: OutgoingMessage, born_at_ms: int) -> Command:
    """Store one message (SendMessageRequestHeaderV2). Raises ValueError for properties that can't be stored.

    Large bodies are compressed. A message to a retry topic says in its properties how often it was tried, and how
    often it may be.
    """
    body, sys_flag = _compressed(message.body)
    fields = _fields(group, mq, born_at_ms, sys_flag=sys_flag, flag=message.flag, properties=message.properties)
    if mq.topic.startswith(RETRY_PREFIX):
        fields["j"] = message.properties.get(RECONSUME_TIME, "0")
        if MAX_RECONSUME_TIMES in message.properties:
            fields["l"] = message.properties[MAX_RECONSUME_TIMES]
    return Command(RequestCode.SEND_MESSAGE_V2, {**fields, "m": "false", "n": mq.broker_name}, body)


def send_batch(group: str, mq: MessageQueue, parts: Iterable[bytes], born_at_ms: int) -> Command:
    """Store messages of one queue (MessageBatch), as batch_part() makes them: all of them or none.

    The batch as such has no unique key, unlike one of 5.x's client: 4.9 writes it over those of the messages. Brokers
    refuse messages that are to wait, and those for retry topics.
    """
    fields = _fields(group, mq, born_at_ms, sys_flag=0, flag=0, properties={WAIT: "true"})
    return Command(RequestCode.SEND_BATCH_MESSAGE, {**fields, "m": "true", "n": mq.broker_name}, b"".join(parts))


def batch_part(message: OutgoingMessage) -> bytes:
    """Return a message as a part of a batch. Raises ValueError for properties that a batch can't have."""
    properties = properties_text(message.properties, room_bytes=_ADDED_PROPERTIES_BYTES).encode()
    body = message.body
    size = _BATCH_HEAD.size + len(body) + _SHORT.size + len(properties)
    head = _BATCH_HEAD.pack(size, 0, 0, message.flag, len(body))
    return b"".join((head, body, _SHORT.pack(len(properties)), properties))


def stored_bytes(part: bytes) -> int:
    """Return how much a part of a batch takes at the broker, where it is more than in the request."""
    return len(part) + _STORED_EXTRA_BYTES


def _fields(
    group: str, mq: MessageQueue, born_at_ms: int, *, sys_flag: int, flag: int, properties: Mapping[str, str]
) -> dict[str, str]:  # fmt: skip
    return {
        "a": group, "b": mq.topic, "c": _DEFAULT_TOPIC, "d": str(_DEFAULT_QUEUE_COUNT), "e": str(mq.queue_id),
        "f": str(sys_flag), "g": str(born_at_ms), "h": str(flag), "i": properties_text(properties), "j": "0",
        "k": "false",
    }  # fmt: skip


def _compressed(body: bytes) -> tuple[bytes, int]:
    """Return a body as it is sent, and the bits that say so; small ones, and what grows by it, stay as they are."""
    if len(body) < _COMPRESSED_FROM_BYTES:
        return body, 0
    small = zlib.compress(body, _COMPRESSION_LEVEL)
    return (small, MessageFlag.COMPRESSED | COMPRESSION_ZLIB) if len(small) < len(body) else (body, 0)


def retry_message(
    message: StoredMessage, origin_topic: str, *, delay_level: int, max_reconsume_times: int
) -> OutgoingMessage:  # fmt: skip
    """Return a message as a new one for a retry topic (DefaultMQPushConsumerImpl.sendMessageBackAsNormalMessage).

    Delay level 0 is that of the next attempt. A negative one asks for a dead letter, by a limit that is reached, and
    has no delay, which 4.9 would keep; Java's client sends it to be retried.
    """
    times = message.reconsume_times
    properties = {name: value for name, value in message.properties.items() if name not in _NOT_RETRIED}
    # Java's client writes the unique key in place of the broker's id, which brokers write and which tells the place.
    properties.setdefault(ORIGIN_MESSAGE_ID, message.offset_id)
    properties |= {
        RETRY_TOPIC: origin_topic,
        RECONSUME_TIME: str(times + 1),
        MAX_RECONSUME_TIMES: str(min(max_reconsume_times, times) if delay_level < 0 else max_reconsume_times),
        WAIT: "true",
    }
    if delay_level >= 0:
        properties[DELAY] = str(delay_level or _FIRST_LEVEL + times)
    return OutgoingMessage(message.body, properties, message.flag)


class SendAnswer(Struct, frozen=True):
    """What a broker says of what it stored (SendMessageResponseHeader). `offset_ids` are those of all messages."""

    status: SendStatus
    queue_id: int
    queue_offset: int
    offset_ids: tuple[str, ...]
    region_id: str | None
    is_traced: bool
    transaction_id: str | None
    recall_handle: str | None


def decode_send(response: Command) -> SendAnswer:
    """Read an answer whose code is in STORED. Raises RemoteProtocolError."""
    fields = response.ext_fields
    ids = fields.get("msgId")
    if not ids:
        raise RemoteProtocolError("The peer's answer to a send does not tell the message's id.")
    return SendAnswer(
        status=STORED[response.code],
        queue_id=int_field(response, "queueId"),
        queue_offset=int_field(response, "queueOffset"),
        offset_ids=tuple(ids.split(",")),
        region_id=fields.get("MSG_REGION"),
        # MQClientAPIImpl.processSendResponse: on unless switched off.
        is_traced=fields.get("TRACE_ON") != "false",
        transaction_id=fields.get("transactionId"),
        recall_handle=fields.get("recallHandle"),
    )


def send_back(
    group: str, commit_log_offset: int, *, delay_level: int, max_reconsume_times: int, origin_message_id: str,
    origin_topic: str, broker_name: str | None,
) -> Command:  # fmt: skip
    """Have a broker store a message of its log once more, to be tried again later (ConsumerSendMsgBackRequestHeader).

    Level 0 leaves the delay to the broker, a negative one makes a dead letter of it. Brokers answer SUCCESS as well
    where the group has no retry queues, and the message is lost to it.
    """
    fields = {
        "offset": str(commit_log_offset), "group": group, "delayLevel": str(delay_level),
        "originMsgId": origin_message_id, "originTopic": origin_topic, "unitMode": "false",
        "maxReconsumeTimes": str(max_reconsume_times),
    }  # fmt: skip
    if broker_name is not None:
        fields["bname"] = broker_name
    return Command(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
