"""Writing rows to topics, as messages: what Spark calls, in tasks and at their end.

A row is sent once at least: a task that fails is run again, and what it had sent by then is sent again.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rmqctl.admin.message_send import fetch_targets
from rmqctl.client.producer import Producer
from rmqctl.errors import UsageError
from rmqctl.model.sending import OutgoingMessage
from rmqctl.protocol.properties import split_keys
from rmqctl.protocol.sends import RESERVED, message_properties
from rmqctl.rules.names import closest

from .hints import with_hints
from .message_rows import SPARK_TYPES
from .options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# Under this name brokers and traces know who sent.
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
    """Sends rows with a column body, and if they have them topic, keys, tags and properties."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        _check(options, schema)
        self._sending = _Sending(options)

    @with_hints()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> SentCount:
        """Send a task's rows; returns when brokers have stored them."""
        return SentCount(asyncio.run(self._sending.send(iterator)))


class MessageWriter(_Writing, DataSourceArrowWriter):
    """What sends the rows of a batch."""


class MessageStreamWriter(_Writing, DataSourceStreamArrowWriter):
    """What sends the rows of each batch of a stream."""


class _Sending:
    """How tasks send. Made on the driver, where a topic that can't be written to is found before any task runs."""

    def __init__(self, options: SinkOptions) -> None:
        # Resolved on the driver: a task's machine may have neither the file nor the variable.
        self._access = replace(options.access, given=options.access.credentials())
        self._topic = options.topic
        if self._topic is not None:
            asyncio.run(self._require_queues(self._topic))

    async def _require_queues(self, topic: str) -> None:
        async with await self._access.connect() as client:
            await fetch_targets(client, topic, None)

    async def send(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Send rows, those of one topic together. Raises RmqctlError."""
        count = 0
        async with await self._access.connect(open_ended=True) as client:
            producer = Producer(client, _GROUP, timeout_s=self._access.timeout_s)
            for batch in batches:
                rows = batch.to_pylist()
                for row in rows:
                    row.setdefault("topic", self._topic)
                rows.sort(key=lambda row: row["topic"] or "")
                for topic, group in itertools.groupby(rows, key=lambda row: row["topic"]):
                    messages = [_message(row) for row in group]
                    async for results in producer.send_batches(_named(topic or self._topic), messages):
                        count += len(results)
        return count


def _named(topic: str | None) -> str:
    if topic is None:
        raise UsageError("A row without a topic can't be sent.", hint="The option topic names one for all rows.")
    return topic


def _message(row: dict[str, Any]) -> OutgoingMessage:
    body = row["body"]
    if not body:
        raise UsageError("A row without a body can't be sent: RocketMQ takes no empty message.")
    # What RocketMQ itself noted on a message that was read is made anew.
    own = {name: value for name, value in (row.get("properties") or ()) if name not in RESERVED and value}
    try:
        made = message_properties(keys=split_keys(row.get("keys")), tag=row.get("tags"), properties=own)
    except ValueError as error:
        raise UsageError(f"A row can't be sent: {error}.") from None
    return OutgoingMessage(body.encode() if isinstance(body, str) else body, made)


def _check(options: SinkOptions, schema: StructType) -> None:
    """Raise UsageError for rows that can't be messages."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "body" not in types:
        raise UsageError("Rows need a column body to be sent.", hint="It is binary or string.")
    if "topic" not in types and options.topic is None:
        raise UsageError("Where to send rows is not known: give the option topic, or a column topic.")
    for name, kind in types.items():
        if name in _TYPES and kind not in _TYPES[name]:
            raise UsageError(f"The column {name} is {kind}: it must be {' or '.join(_TYPES[name])}.")
        if name not in _TYPES and name not in SPARK_TYPES:
            like = closest(name, _TYPES)
            raise UsageError(
                f"A message has no place for the column {name!r}.",
                hint=f"Did you mean {like[0]}?" if like else f"Sent are {', '.join(_TYPES)}.",
            )
