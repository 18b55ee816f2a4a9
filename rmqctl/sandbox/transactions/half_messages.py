"""Half messages: kept aside until their producer ends the transaction (TransactionalMessageBridge).

A half message waits in RMQ_SYS_TRANS_HALF_TOPIC. An ended one stays there, and a message in RMQ_SYS_TRANS_OP_HALF_TOPIC
has its queue offset: 4.9 writes one message each, 5.x several offsets together some seconds later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqctl.net.clock import Clock, Timer
from rmqctl.protocol.flags import MessageFlag
from rmqctl.protocol.message import StoredMessage
from rmqctl.protocol.properties import TAGS, UNIQ_KEY
from rmqctl.protocol.record import Host
from rmqctl.protocol.sends import TRAN_MSG
from rmqctl.rules.message_wait import REAL_QUEUE_ID, REAL_TOPIC
from rmqctl.sandbox.delivery.delays import delay_level, set_aside
from rmqctl.sandbox.delivery.unique_keys import new_unique_key
from rmqctl.sandbox.settings import ServerSettings
from rmqctl.sandbox.storage.store import NewMessage, PutMessageResult, copy_of
from rmqctl.sandbox.topics.table import HALF_TOPIC, OP_TOPIC

# The producer group that prepared a message (MessageConst.PROPERTY_PRODUCER_GROUP).
PRODUCER_GROUP = "PGROUP"
_TRANSACTION_ID = "__transactionId__"
# TransactionalMessageUtil.REMOVE_TAG: the half messages at these offsets are ended.
_ENDED = "d"


def is_half(properties: Mapping[str, str], reconsume_times: int, *, is_5: bool) -> bool:
    """Return whether a message is sent as a half message; to 5.x, a retry of one by clients before 4.6.1 is not."""
    is_retry = is_5 and reconsume_times > 0 and delay_level(properties) > 0
    return properties.get(TRAN_MSG, "").lower() == "true" and not is_retry


class HalfMessages:
    """What a broker stores of transactions. `put` stores a message; `store_host` returns the broker's address."""

    def __init__(
        self, clock: Clock, now_ms: Callable[[], int], settings: ServerSettings,
        put: Callable[[NewMessage], PutMessageResult], store_host: Callable[[], Host], *, is_5: bool,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._now_ms = now_ms
        self._settings = settings
        self._put = put
        self._store_host = store_host
        self._is_5 = is_5
        # 5.x: offsets that are not stored yet; a restart forgets them, and checks these messages again.
        self._ended = ""
        self._written_at_ms: int | None = None
        self._timer: Timer | None = None

    def prepare(self, message: NewMessage) -> PutMessageResult:
        """Store a message where no consumer sees it. Raises what put() raises."""
        unique_key = message.properties.get(UNIQ_KEY)
        if self._is_5 and unique_key:
            message.properties[_TRANSACTION_ID] = unique_key
        message.sys_flag &= ~MessageFlag.TRANSACTION_ROLLED_BACK
        set_aside(message, HALF_TOPIC, 0)
        return self._put(message)

    def end(self, half: StoredMessage) -> None:
        """Note that a half message is ended, whichever way. Raises what put() raises in 4.9."""
        if not self._is_5:
            self._write(str(half.queue_offset))
            return
        if self._written_at_ms is None:
            self._written_at_ms = self._now_ms()
        self._ended += f"{half.queue_offset},"
        if self._timer is None:
            due_ms = self._written_at_ms + self._settings.number("transactionOpBatchInterval")
            self._timer = self._clock.call_later(max(0, due_ms - self._now_ms()) / 1000, self._flush)
        if len(self._ended) > self._settings.number("transactionOpMsgMaxSize"):
            self._flush()

    def stop(self) -> None:
        """Write nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _flush(self) -> None:
        self.stop()
        ended, self._ended = self._ended, ""
        self._written_at_ms = self._now_ms()
        self._write(ended)

    def _write(self, offsets: str) -> None:
        now_ms, host = self._now_ms(), self._store_host()
        properties = {TAGS: _ENDED, UNIQ_KEY: new_unique_key(host, now_ms)}
        self._put(
            NewMessage(
                topic=OP_TOPIC, queue_id=0, body=offsets.encode(), properties=properties, born_at_ms=now_ms,
                born_host=host,
            )
        )  # fmt: skip


def ended_offsets(op: StoredMessage) -> list[int]:
    """Return the queue offsets of the half messages that a message of OP_TOPIC ends."""
    if op.properties.get(TAGS) != _ENDED:
        return []
    return [int(part) for part in op.stored_body.decode(errors="replace").split(",") if part.isdigit()]


def committed(half: StoredMessage, *, is_5: bool) -> NewMessage:
    """Return the message of a committed half message (EndTransactionProcessor.endMessageTransaction).

    Its properties keep marks of the half message, unless they are written again because it is delayed.
    """
    properties = half.properties
    topic, queue_id = properties.get(REAL_TOPIC, ""), int(properties.get(REAL_QUEUE_ID, "0"))
    is_delayed = delay_level(properties) > 0
    for name, is_kept in ((TRAN_MSG, True), (REAL_TOPIC, not is_5), (REAL_QUEUE_ID, not is_5)):
        if is_delayed or not is_kept:
            properties.pop(name, None)
    message = copy_of(half, properties)
    message.topic, message.queue_id = topic, queue_id
    message.sys_flag = half.sys_flag & ~MessageFlag.TRANSACTION_ROLLED_BACK | MessageFlag.TRANSACTION_COMMITTED
    message.prepared_transaction_offset = half.commit_log_offset
    return message


def again(half: StoredMessage, properties: dict[str, str], topic: str = HALF_TOPIC) -> NewMessage:
    """Return a half message to store once more (toMessageExtBrokerInner)."""
    message = copy_of(half, properties)
    message.topic, message.queue_id = topic, 0
    return message
