"""The data source `rocketmq` (pyspark.sql.datasource): what Spark calls to read, on the driver and in tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rmqctl.client.core import Client
from rmqctl.errors import UsageError
from rmqctl.pipeline import FORMAT
from rmqctl.text.names import hint_for

from .hints import with_hints
from .message_rows import SPARK_SCHEMA, SPARK_TYPES
from .options import SourceOptions, read_sink_options, read_source_options
from .planner import MessagePartition, Planner, task_of
from .ranges import QueueRange
from .sink import MessageStreamWriter, MessageWriter
from .stream_reader import ADMITS_LIMITS, MessageStreamReader, MessageStreamReaderOf41
from .tasks import read_batches

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class RocketMQDataSource(DataSource):
    """Messages of topics as a table; see SPARK_SCHEMA for its columns."""

    @classmethod
    def name(cls) -> str:
        """Return the name that format() accepts."""
        return FORMAT

    def schema(self) -> str:
        """Return all columns."""
        return SPARK_SCHEMA

    @with_hints()
    def reader(self, schema: StructType) -> MessageReader:
        """Return a reader for one range of the topics."""
        return MessageReader(self._options(), _columns(schema))

    @with_hints()
    def streamReader(self, schema: StructType) -> MessageStreamReader:
        """Return a reader for a stream."""
        kind = MessageStreamReader if ADMITS_LIMITS else MessageStreamReaderOf41
        return kind(self._options(), _columns(schema))

    @with_hints()
    def writer(self, schema: StructType, overwrite: bool) -> MessageWriter:
        """Return a writer that sends rows."""
        if overwrite:
            raise UsageError("Overwriting a topic is not supported: its messages stay.", hint="Use mode append.")
        return MessageWriter(read_sink_options(self.options), schema)

    @with_hints()
    def streamWriter(self, schema: StructType, overwrite: bool) -> MessageStreamWriter:
        """Return a writer that sends the rows of a stream."""
        if overwrite:
            raise UsageError("Overwriting a topic is not supported.", hint="Use outputMode append.")
        return MessageStreamWriter(read_sink_options(self.options), schema)

    def _options(self) -> SourceOptions:
        return read_source_options(self.options, time.time_ns() // 1_000_000)


class MessageReader(DataSourceReader):
    """Reads the messages between two places of the topics."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        if options.stream_only:
            raise UsageError(f"The option {options.stream_only[0]} is only for streams.")
        self._planner = Planner(options, columns)
        # Spark may ask several times for one read, and must get the same answer.
        self._planned: list[MessagePartition] | None = None

    @with_hints()
    def partitions(self) -> list[MessagePartition]:
        """Return the partitions; the first call fixes where they start and end."""
        if self._planned is None:
            self._planned = self._planner.partitions(self._planner.ask(self._ranges))
        return self._planned

    async def _ranges(self, client: Client) -> list[QueueRange]:
        options, planner = self._planner.options, self._planner
        found = await planner.begin(client)
        start = await planner.place(client, found, options.starting, is_start=True)
        end = await planner.place(client, found, options.ending, is_start=False)
        return [QueueRange(mq, span.address, start[mq], end[mq]) for mq, span in sorted(found.spans.items())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in a task."""
        return read_batches(task_of(partition))


def _columns(schema: StructType) -> tuple[str, ...]:
    """Return the requested columns. Raises UsageError for unknown ones."""
    for field in schema.fields:
        wanted = SPARK_TYPES.get(field.name)
        if wanted is None:
            raise UsageError(
                f"Unknown column {field.name!r}.",
                hint=hint_for(field.name, SPARK_TYPES),
            )
        if field.dataType.simpleString() != wanted:
            raise UsageError(f"The column {field.name} is {wanted}, not {field.dataType.simpleString()}.")
    return tuple(schema.names)
