"""The data source `rocketmq` (pyspark.sql.datasource): what Spark calls to read, on the driver and in tasks."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from rmqctl.admin.messages.pull import Expression
from rmqctl.admin.messages.search import check_sql
from rmqctl.admin.results import all_failed
from rmqctl.admin.topics.queues import fetch_route
from rmqctl.client.core import Client
from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline import FORMAT
from rmqctl.text.names import hint_for

from .hints import with_hints
from .message_rows import SPARK_SCHEMA, SPARK_TYPES
from .options import Bound, ReadPosition, SourceOptions, read_sink_options, read_source_options
from .ranges import QueueRange, admit, offsets_as_json, offsets_of_json, share_out
from .retained_queues import LostRange, RetainedQueues, fetch_read_offsets, fetch_retained_queues, losses_as_error
from .sink import MessageStreamWriter, MessageWriter
from .tasks import Task, read_batches

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

    _ADMITS_LIMITS = True
except ImportError:  # before 4.2
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]
    _ADMITS_LIMITS = False

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_T = TypeVar("_T")

_LOG = logging.getLogger(__name__)

# Tasks for each core of the driver's machine, unless the options say how many.
_TASKS_PER_CORE = 4


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
        kind = MessageStreamReader if _ADMITS_LIMITS else MessageStreamReaderOf41
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


class MessagePartition(InputPartition):
    """The part of a read that one task does."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task


class _Planner:
    """Plans on the driver; each question uses its own connections, because Spark calls from several processes."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self.options = options
        self.columns = columns
        self._losses: list[LostRange] = []

    def ask(self, question: Callable[[Client], Coroutine[Any, Any, _T]]) -> _T:
        """Return the answer to a question. Raises RmqctlError, with fail_on_data_loss also for lost offsets."""

        async def run() -> _T:
            async with await self.options.access.connect() as client:
                return await question(client)

        answer = asyncio.run(run())
        losses, self._losses = self._losses, []
        if losses and self.options.fail_on_data_loss:
            raise losses_as_error(losses)
        for loss in losses:
            _LOG.warning("%s", losses_as_error([loss]).sentence)
        return answer

    async def found(self, client: Client) -> RetainedQueues:
        """Return what brokers currently retain of the topics."""
        return await fetch_retained_queues(client, self.options.topics)

    async def place(
        self, client: Client, found: RetainedQueues, place: ReadPosition, *, is_start: bool
    ) -> dict[MessageQueue, int]:
        """Return the offsets of a place in the options."""
        return await fetch_read_offsets(
            client, found, place, self.options.group, is_start=is_start, on_loss=self._losses.append
        )

    def partitions(self, ranges: Sequence[QueueRange]) -> list[MessagePartition]:
        """Divide ranges among tasks; return at least one, because Spark requires it."""
        options = self.options
        # Resolved here: a task's machine may have neither the file nor the variable.
        access = replace(options.access, given=options.access.credentials())
        expression = Expression()
        if options.tags:
            expression = Expression(" || ".join(sorted(options.tags)))
        elif options.sql is not None:
            expression = Expression(options.sql, "SQL92")
        most = options.max_partitions or _TASKS_PER_CORE * (os.cpu_count() or 1)
        parts = share_out(ranges, min_count=options.min_partitions, max_count=max(most, options.min_partitions))
        return [
            MessagePartition(Task(access, part, self.columns, expression, options.tags, options.fail_on_data_loss))
            for part in parts or [()]
        ]

    def ranges(
        self, found: RetainedQueues, start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]
    ) -> list[QueueRange]:
        """Return the ranges between two offsets of each queue; a queue without a start begins at its first offset.

        Messages and queues that were deleted meanwhile count as lost.
        """
        ranges = []
        for mq, end_offset in sorted(end.items()):
            span = found.spans.get(mq)
            first_offset = start.get(mq, 0 if span is None else span.min_offset)
            if first_offset == end_offset:
                continue
            if span is None:
                self._losses.append(LostRange(mq, first_offset, end_offset, "the queue does not exist any more"))
                continue
            if end_offset < first_offset:
                self._losses.append(LostRange(mq, end_offset, first_offset, "the queue was recreated, and is shorter"))
                first_offset = span.min_offset
            if first_offset < span.min_offset:
                gone_until = min(span.min_offset, end_offset)
                self._losses.append(LostRange(mq, first_offset, gone_until, "the broker has deleted them"))
                first_offset = gone_until
            ranges.append(QueueRange(mq, span.address, first_offset, end_offset))
        return ranges

    async def check_expression(self, client: Client) -> None:
        """Make sure that brokers understand the SQL: with an invalid one, they pull as without a filter."""
        if self.options.sql is None:
            return
        for topic in self.options.topics:
            route = await fetch_route(client, topic)
            failures = await check_sql(client, route, self.options.sql)
            if failures:
                raise all_failed(failure.error for failure in failures)


class MessageReader(DataSourceReader):
    """Reads the messages between two places of the topics."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._planner = _Planner(options, columns)
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
        await planner.check_expression(client)
        found = await planner.found(client)
        start = await planner.place(client, found, options.starting, is_start=True)
        end = await planner.place(client, found, options.ending, is_start=False)
        return [QueueRange(mq, span.address, start[mq], end[mq]) for mq, span in sorted(found.spans.items())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in a task."""
        return read_batches(_task(partition))


class MessageStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Continues where the last batch ended. Its offsets are by queue, as in `startingOffsets`."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        if options.ending.bound is not Bound.LATEST:
            raise UsageError("The option endingOffsets is not supported for a stream.")
        self._planner = _Planner(options, columns)
        # The offsets at the start of an AvailableNow run, which ends there.
        self._until: RetainedQueues | None = None
        self._latest: dict[str, Any] | None = None

    @with_hints()
    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query starts."""

        async def ask(client: Client) -> dict[MessageQueue, int]:
            await self._planner.check_expression(client)
            found = await self._planner.found(client)
            return await self._planner.place(client, found, self._planner.options.starting, is_start=True)

        return offsets_as_json(self._planner.ask(ask))

    def getDefaultReadLimit(self) -> Any:
        """Return how many of the waiting messages a batch may read."""
        count = self._planner.options.max_offsets_per_trigger
        return ReadAllAvailable() if count is None else ReadMaxRows(count)

    @with_hints()
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix where this run ends."""
        self._until = self._planner.ask(self._planner.found)

    @with_hints()
    def latestOffset(self, start: Mapping[str, Any], limit: Any) -> dict[str, Any]:
        """Return where the next batch ends: at the queues' ends, or after as many messages as the limit allows."""
        found = self._until or self._planner.ask(self._planner.found)
        begun = {**found.edge(latest=False), **offsets_of_json(start)}
        # A deleted queue keeps its offset.
        latest = {**begun, **found.edge(latest=True)}
        self._latest = offsets_as_json(latest)
        max_count = getattr(limit, "max_rows", None)
        return self._latest if max_count is None else offsets_as_json(admit(begun, latest, max_count))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the last known ends of the queues, for the query's status."""
        return self._latest

    @with_hints()
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[MessagePartition]:
        """Return the partitions of a batch. After a crash, Spark asks for the same batch again."""
        begun, ending = offsets_of_json(start), offsets_of_json(end)

        async def ask(client: Client) -> list[QueueRange]:
            return self._planner.ranges(await self._planner.found(client), begun, ending)

        return self._planner.partitions(self._planner.ask(ask))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in a task."""
        return read_batches(_task(partition))

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the checkpoint records a query's progress. Groups' offsets belong to their members."""

    def stop(self) -> None:
        """Do nothing: no connection stays open between questions."""


class MessageStreamReaderOf41(MessageStreamReader):
    """The same for Spark 4.0 and 4.1, which ask for the end without giving the start, and support no limit."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        if options.max_offsets_per_trigger is not None:
            raise UsageError("The option maxOffsetsPerTrigger needs Spark 4.2 or newer.")
        super().__init__(options, columns)

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the queues' ends."""
        return super().latestOffset(self._latest or {}, None)


def _task(partition: InputPartition) -> Task:
    if not isinstance(partition, MessagePartition):
        raise TypeError(f"a partition of another source: {partition!r}")
    return partition.task


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
