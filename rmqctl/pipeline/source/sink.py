"""The sink `rocketmq`: sends rows to topics as messages. Spark calls it in tasks.

A row is sent at least once: a task that fails is retried, and sends again what it had already sent.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rmqctl.admin.messages.send import fetch_targets
from rmqctl.errors import UsageError
from rmqctl.model.names import require_target_topic
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.producer.producer import Producer
from rmqctl.protocol.properties import split_keys
from rmqctl.protocol.sends import RESERVED, message_properties
from rmqctl.rules.topics import own_topics
from rmqctl.text.names import hint_for

from .hints import with_hints
from .message_rows import SPARK_TYPES
from .options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# The producer group that brokers and traces record.
_GROUP = "rmqctl-spark"
_TYPES = {
    "topic": ("string",), "body": ("binary", "string"), "keys": ("string",), "tags": ("string",),
    "properties": ("map<string,string>",),
}  # fmt: skip


class SentCount(WriterCommitMessage):
    """How many messages a task has sent."""

    def __init__(self, count: int) -> None:
        self.count = count


class _Writing:
    """Sends rows with a column body, and optionally topic, keys, tags and properties."""

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
        # Resolved on the driver: a task's machine may have neither the file nor the variable.
        self._access = replace(options.access, given=options.access.credentials())
        self._topic = options.topic
        if self._topic is not None:
            require_target_topic(self._topic)
            asyncio.run(self._require_queues(self._topic))

    async def _require_queues(self, topic: str) -> None:
        async with await self._access.connect() as client:
            require_target_topic(topic, own=own_topics(await client.cluster()))
            await fetch_targets(client, topic, None)

    async def send(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Send rows, grouped by topic; return their number. Raises RmqctlError."""
        count = 0
        async with await self._access.connect(open_ended=True) as client:
            producer = Producer(client, _GROUP, timeout_s=self._access.timeout_s)
            own = own_topics(await client.cluster())
            for batch in batches:
                rows = batch.to_pylist()
                for row in rows:
                    row.setdefault("topic", self._topic)
                rows.sort(key=lambda row: row["topic"] or "")
                for topic, group in itertools.groupby(rows, key=lambda row: row["topic"]):
                    messages = [_message(row) for row in group]
                    async for results in producer.send_batches(_named(topic or self._topic, own), messages):
                        count += len(results)
        return count


def _named(topic: str | None, own: Collection[str]) -> str:
    if topic is None:
        raise UsageError("Cannot send a row without a topic.", hint="Set the option topic for all rows.")
    require_target_topic(topic, own=own)
    return topic


def _message(row: dict[str, Any]) -> OutgoingMessage:
    body = row["body"]
    if not body:
        raise UsageError("Cannot send a row without a body: RocketMQ does not accept empty messages.")
    # Properties that RocketMQ itself set on a message that was read are left out: sending sets them again.
    own = {name: value for name, value in (row.get("properties") or ()) if name not in RESERVED and value}
    try:
        made = message_properties(keys=split_keys(row.get("keys")), tag=row.get("tags"), properties=own)
    except ValueError as error:
        raise UsageError(f"Cannot send a row: {error}.") from None
    return OutgoingMessage(body.encode() if isinstance(body, str) else body, made)


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
