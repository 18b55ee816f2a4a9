"""The sink `rocketmq`: sends rows to topics as messages. Spark calls it in tasks.

A row is sent at least once: a task that fails is retried, and sends again what it had already sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rmqctl.admin.messages.send import fetch_targets
from rmqctl.admin.results import all_failed, ask_all
from rmqctl.client.access import Access
from rmqctl.client.core import Client
from rmqctl.errors import UnreachableError, UsageError
from rmqctl.model.names import require_target_topic
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.net.clock import pause
from rmqctl.producer.message import with_sharding_key
from rmqctl.producer.producer import Producer, new_keys
from rmqctl.protocol.properties import SHARDING_KEY, UNIQ_KEY, split_keys
from rmqctl.protocol.sends import DELAYS, RESERVED, message_properties
from rmqctl.rules.send_queues import queue_of_key, writable_queues
from rmqctl.rules.topics import own_topics
from rmqctl.text.names import hint_for
from rmqctl.text.words import listed

from .hints import with_hints
from .message_rows import SPARK_TYPES
from .options import SinkOptions
from .task_access import task_access

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# The producer group that brokers and traces record.
_GROUP = "rmqctl-spark"
_NUMBER = ("int", "bigint")
_TYPES = {
    "topic": ("string",), "body": ("binary", "string"), "keys": ("string",), "tags": ("string",),
    "properties": ("map<string,string>",), "flag": _NUMBER, "broker_name": ("string",), "queue_id": _NUMBER,
    "sharding_key": ("string",), "delay_level": _NUMBER, "delay_ms": _NUMBER, "deliver_ts": ("timestamp",),
}  # fmt: skip
_DELAYS = ("delay_level", "delay_ms", "deliver_ts")
# Delayed messages in flight: brokers ignore a delay in a batch, so each is a request.
_AT_ONCE = 32
# The delay levels that brokers have by default (messageDelayLevel).
_MOST_DELAY_LEVEL = 18
# How long to wait before sending again to a broker that does not answer; the timeout limits the retries.
_AGAIN_S = 1.0


class SentCount(WriterCommitMessage):
    """How many messages a task has sent."""

    def __init__(self, count: int) -> None:
        self.count = count


class _Writing:
    """Sends rows with a column body, and optionally the other columns of _TYPES."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        _check(options, schema)
        self._sending = _Sending(options)

    @with_hints()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> SentCount:
        """Send a task's rows; return when brokers have stored them."""
        return SentCount(asyncio.run(self._sending.send(iterator)))


class MessageWriter(_Writing, DataSourceArrowWriter):
    """Sends the rows of a batch query."""


class MessageStreamWriter(_Writing, DataSourceStreamArrowWriter):
    """Sends the rows of each batch of a stream."""


class _Sending:
    """How tasks send. Created on the driver, so that a topic that is not writable fails before any task runs."""

    def __init__(self, options: SinkOptions) -> None:
        self._access = task_access(options.access)
        self._topic = options.topic
        if self._topic is not None:
            require_target_topic(self._topic)
            asyncio.run(_require_queues(options.access, self._topic))

    async def send(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Send rows, those of one queue in their order; return their number. Raises RmqctlError."""
        count = 0
        timeout_s = self._access.timeout_s
        async with await self._access.connect() as client:
            keys = new_keys()
            producer = Producer(client, _GROUP, timeout_s=timeout_s, keys=keys)
            own = own_topics(await client.cluster())
            for batch in batches:
                queues: dict[str, tuple[MessageQueue, ...]] = {}
                places: dict[_Place, list[OutgoingMessage]] = {}
                for row in _rows(batch):
                    topic = _named(self._topic if row.get("topic") is None else row["topic"], own)
                    message = _message(row, keys.make(client.clock.now_ms()))
                    if topic not in queues:
                        queues[topic] = writable_queues(await producer.routes.route(topic))
                    is_delayed = not DELAYS.isdisjoint(message.properties)
                    place = _Place(topic, _queue(queues[topic], topic, row, message), is_delayed)
                    places.setdefault(place, []).append(message)
                for place, messages in places.items():
                    await _Patience(client, producer, place, timeout_s).send(messages)
                count += batch.num_rows
        return count


async def _require_queues(access: Access, topic: str) -> None:
    async with await access.connect() as client:
        require_target_topic(topic, own=own_topics(await client.cluster()))
        await fetch_targets(client, topic, None)


class _Place(NamedTuple):
    """Where messages go, in which way; without a queue, to any."""

    topic: str
    mq: MessageQueue | None
    is_delayed: bool


class _Patience:
    """Sends messages to one place, and again while its broker does not answer: a failed task would repeat all rows.

    The messages have their unique keys already, so one that is stored twice has the same key.
    """

    def __init__(self, client: Client, producer: Producer, place: _Place, timeout_s: float) -> None:
        self._clock = client.clock
        self._producer = producer
        self._place = place
        self._timeout_s = timeout_s

    async def send(self, messages: Sequence[OutgoingMessage]) -> None:
        """Return when all are stored. Raises RmqctlError."""
        left, give_up_s = list(messages), self._clock.monotonic_s() + self._timeout_s
        while left:
            before_count = len(left)
            try:
                await (self._each(left) if self._place.is_delayed else self._batched(left))
            except UnreachableError:
                if len(left) < before_count:
                    give_up_s = self._clock.monotonic_s() + self._timeout_s
                elif self._clock.monotonic_s() >= give_up_s:
                    raise
                await pause(self._clock, _AGAIN_S)
                await self._producer.routes.route(self._place.topic, again=True)

    async def _batched(self, left: list[OutgoingMessage]) -> None:
        """Send in order; remove from `left` what is stored."""
        async for results in self._producer.send_batches(self._place.topic, list(left), mq=self._place.mq):
            del left[: len(results)]

    async def _each(self, left: list[OutgoingMessage]) -> None:
        """Send some at a time; remove from `left` what is stored."""
        topic, mq, _ = self._place
        while left:
            asked = range(min(_AT_ONCE, len(left)))
            answers = await ask_all(asked, lambda at: self._producer.send_message(topic, left[at], mq=mq))
            left[: len(asked)] = [left[at] for at in sorted(answers.failed)]
            if answers.failed:
                raise all_failed(answers.failed.values())


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows, with times in microseconds: Python's have a time zone, which a machine may not know."""
    at = batch.schema.get_field_index("deliver_ts")
    if at >= 0:
        batch = batch.set_column(at, "deliver_ts", batch.column(at).cast(pa.int64()))
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def _queue(
    queues: Sequence[MessageQueue], topic: str, row: dict[str, Any], message: OutgoingMessage
) -> MessageQueue | None:
    """Return the queue that a row names, or the one of its sharding key. Raises UsageError."""
    broker_name, queue_id = row.get("broker_name"), row.get("queue_id")
    if broker_name is None and queue_id is None:
        sharding_key = message.properties.get(SHARDING_KEY)
        # Without a queue, the producer says that there is none.
        return queue_of_key(queues, sharding_key) if sharding_key is not None and queues else None
    if broker_name is None or queue_id is None:
        raise UsageError("Cannot send a row that has only one of broker_name and queue_id.")
    mq = MessageQueue(topic, broker_name, queue_id)
    # The queues of a broker that is not registered are unknown: it may come back.
    if mq not in queues and any(each.broker_name == broker_name for each in queues):
        raise UsageError(
            f"Topic {topic} has no writable queue {broker_name}:{queue_id}.",
            hint='Without the columns broker_name and queue_id, any queue is used: .drop("broker_name", "queue_id")',
        )
    return mq


def _named(topic: str | None, own: Collection[str]) -> str:
    if not topic:
        raise UsageError("Cannot send a row without a topic.", hint="Set the option topic for all rows.")
    require_target_topic(topic, own=own)
    return topic


def _message(row: dict[str, Any], unique_key: str) -> OutgoingMessage:
    body = row["body"]
    if not body:
        raise UsageError("Cannot send a row without a body: RocketMQ does not accept empty messages.")
    if sum(row.get(name) is not None for name in _DELAYS) > 1:
        raise UsageError(f"Cannot send a row that has more than one of {listed(_DELAYS)}.")
    if any((row.get(name) or 0) < 0 for name in (*_DELAYS, "queue_id")):
        raise UsageError(f"Cannot send a row with a negative number in queue_id, {listed(_DELAYS)}.")
    if row.get("delay_level") is not None and not 1 <= row["delay_level"] <= _MOST_DELAY_LEVEL:
        raise UsageError(f"Cannot send a row with a delay_level other than 1 to {_MOST_DELAY_LEVEL}.")
    if not -(2**31) <= (row.get("flag") or 0) < 2**31:
        raise UsageError(f"Cannot send a row with flag {row['flag']}: it must be a number of 32 bits.")
    deliver_us = row.get("deliver_ts")
    # Properties that RocketMQ itself set on a message that was read are left out: sending sets them again.
    own = {name: value for name, value in (row.get("properties") or ()) if name not in RESERVED and value}
    try:
        made = message_properties(
            keys=split_keys(row.get("keys")),
            tag=row.get("tags"),
            properties=own,
            delay_level=row.get("delay_level") or 0,
            delay_ms=row.get("delay_ms"),
            deliver_at_ms=None if deliver_us is None else deliver_us // 1_000,
        )
    except ValueError as error:
        raise UsageError(f"Cannot send a row: {error}.") from None
    made[UNIQ_KEY] = unique_key
    message = OutgoingMessage(body.encode() if isinstance(body, str) else body, made, row.get("flag") or 0)
    if (sharding_key := row.get("sharding_key")) is None:
        return message
    if row.get("queue_id") is not None:
        raise UsageError("Cannot send a row that has both a queue and a sharding key.")
    return with_sharding_key(message, sharding_key)


def _check(options: SinkOptions, schema: StructType) -> None:
    """Raise UsageError for rows that cannot be messages."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "body" not in types:
        raise UsageError("The rows have no column body.", hint="Add a column body of type binary or string.")
    if "topic" not in types and options.topic is None:
        raise UsageError("The topic of the rows is unknown.", hint="Set the option topic, or add a column topic.")
    for name, kind in types.items():
        if name in _TYPES and kind not in _TYPES[name]:
            raise UsageError(f"The column {name} must be {' or '.join(_TYPES[name])}, not {kind}.")
        if name not in _TYPES and name not in SPARK_TYPES:
            raise UsageError(
                f"Unknown column {name!r}.",
                hint=hint_for(name, _TYPES),
            )
    if ("broker_name" in types) != ("queue_id" in types):
        raise UsageError("The columns broker_name and queue_id need each other.", hint="Drop one, or add the other.")
    if refused := [name for name in types if name not in _TYPES]:
        dropped = ", ".join(f'"{name}"' for name in refused)
        raise UsageError(
            f"A message has no place for {listed(refused)}: brokers set that themselves.",
            hint=f"Drop what you do not need: .drop({dropped})",
        )
