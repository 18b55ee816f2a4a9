"""Requests that store messages (sent singly, in batches, or sent back by a consumer), and their answers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

from msgspec import Struct

from rmqctl.errors import RemoteProtocolError
from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage, SendStatus

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
DELAYS = frozenset({DELAY, TIMER_DELAY_MS, TIMER_DELIVER_MS})
RETRY_TOPIC = "RETRY_TOPIC"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
TRAN_MSG = "TRAN_MSG"

# The codes of answers that mean that the message is stored.
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
# Room for the unique key and for what brokers add (CLUSTER, MSG_REGION ...). Brokers refuse a message that this makes
# too long. But 4.9 stores it as a part of a batch, cannot read its log from there on, and delivers no more messages.
_ADDED_PROPERTIES_BYTES = 1_024
# What brokers add to each message of a batch that they store: fixed fields, hosts, CLUSTER.
_STORED_EXTRA_BYTES = 512
# DefaultMQProducer.compressMsgBodyOverHowmuch, compressLevel.
_COMPRESSED_FROM_BYTES = 4096
_COMPRESSION_LEVEL = 5

# The template topic for a topic that brokers do not have (MixAll.AUTO_CREATE_TOPIC_KEY_TOPIC).
_DEFAULT_TOPIC, _DEFAULT_QUEUE_COUNT = "TBW102", 4

_BATCH_HEAD = struct.Struct(">iiiii")  # size, magic, CRC, flag, body length
_SHORT = struct.Struct(">h")

# The delay level of the first retry; each further retry uses the next level.
_FIRST_LEVEL = 3
# A half message would stay invisible; the retry has its own delay.
_NOT_RETRIED = ("", TRAN_MSG, DELAY)

# Names that an application cannot use (MessageConst.STRING_HASH_SET of 5.4.0).
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
    """Return the properties of a new message (Message). Raises ValueError for values that would be read back changed.

    Brokers from 5.0 on delay a message by `delay_ms`, or until `deliver_at_ms`; older ones support levels only.
    """
    for name, value in (properties or {}).items():
        if name in RESERVED:
            raise ValueError(f"the property name {name} is reserved by RocketMQ")
        if not name or not value:
            raise ValueError("a property needs a name and a value")
    made = {**(properties or {}), WAIT: "true"}
    if given := tuple(keys):
        if bad := [key for key in given if split_keys(key) != [key]]:
            raise ValueError(f"{bad[0]!r} is not a valid key: a key has no blanks and is not empty")
        made[KEYS] = " ".join(given)
    if tag is not None:
        if not tag or tag != tag.strip() or "||" in tag or tag == "*":
            raise ValueError(f"{tag!r} is not a valid tag: a consumer could not subscribe to it alone")
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
    """Return whether only brokers from 5.0 on can delay the message. A delay level has precedence over a time."""
    return DELAY not in properties and (TIMER_DELAY_MS in properties or TIMER_DELIVER_MS in properties)


def properties_text(properties: Mapping[str, str], *, room_bytes: int = 0) -> str:
    """Return properties as they are sent. Raises ValueError where brokers cannot store them and `room_bytes` more."""
    text = encode_properties(properties)
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("a key, tag or property is not valid Unicode") from None
    if size_bytes > _MAX_PROPERTIES_BYTES - room_bytes:
        limit = _MAX_PROPERTIES_BYTES - room_bytes
        raise ValueError(f"keys, tag and properties have {size_bytes} bytes; the limit is {limit}")
    return text


def send_message(group: str, mq: MessageQueue, message: OutgoingMessage, born_at_ms: int) -> Command:
    """Store one message (SendMessageRequestHeaderV2). Raises ValueError for properties that cannot be stored.

    Large bodies are compressed. The properties of a message to a retry topic have its reconsume times and their limit.
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

    The batch itself has no unique key, unlike a batch of the 5.x client: 4.9 would overwrite those of the messages with
    it. Brokers refuse delayed messages in a batch, and messages for retry topics.
    """
    fields = _fields(group, mq, born_at_ms, sys_flag=0, flag=0, properties={WAIT: "true"})
    return Command(RequestCode.SEND_BATCH_MESSAGE, {**fields, "m": "true", "n": mq.broker_name}, b"".join(parts))


def batch_part(message: OutgoingMessage) -> bytes:
    """Return a message as a part of a batch. Raises ValueError for properties that a batch cannot have."""
    properties = properties_text(message.properties, room_bytes=_ADDED_PROPERTIES_BYTES).encode()
    body = message.body
    size = _BATCH_HEAD.size + len(body) + _SHORT.size + len(properties)
    head = _BATCH_HEAD.pack(size, 0, 0, message.flag, len(body))
    return b"".join((head, body, _SHORT.pack(len(properties)), properties))


def stored_bytes(part: bytes) -> int:
    """Return the size of a part of a batch in the broker's log, which is larger than in the request."""
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
    """Return a body as it is sent, and its compression bits; a body that is small or would grow stays uncompressed."""
    if len(body) < _COMPRESSED_FROM_BYTES:
        return body, 0
    small = zlib.compress(body, _COMPRESSION_LEVEL)
    return (small, MessageFlag.COMPRESSED | COMPRESSION_ZLIB) if len(small) < len(body) else (body, 0)


def retry_message(
    message: StoredMessage, origin_topic: str, *, delay_level: int, max_reconsume_times: int
) -> OutgoingMessage:  # fmt: skip
    """Return a message as a new one for a retry topic (DefaultMQPushConsumerImpl.sendMessageBackAsNormalMessage).

    Delay level 0 means the level of the next attempt. A negative one asks for a dead letter: the limit of attempts
    counts as reached, and no delay is set, because 4.9 would keep it. Java's client has such a message retried instead.
    """
    times = message.reconsume_times
    properties = {name: value for name, value in message.properties.items() if name not in _NOT_RETRIED}
    # Java's client writes the unique key. Brokers write the broker's id, which gives the position of the message.
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
    """A broker's answer to a send (SendMessageResponseHeader). `offset_ids` has one id per stored message."""

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
        raise RemoteProtocolError("The peer's answer to a send has no message id.")
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
    """Have a broker store a message of its log once more, for a later retry (ConsumerSendMsgBackRequestHeader).

    Level 0 leaves the delay to the broker, a negative one makes the message a dead letter. Brokers also answer SUCCESS
    where the group has no retry queues; the group then loses the message.
    """
    fields = {
        "offset": str(commit_log_offset), "group": group, "delayLevel": str(delay_level),
        "originMsgId": origin_message_id, "originTopic": origin_topic, "unitMode": "false",
        "maxReconsumeTimes": str(max_reconsume_times),
    }  # fmt: skip
    if broker_name is not None:
        fields["bname"] = broker_name
    return Command(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
