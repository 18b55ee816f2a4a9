"""How Spark reads a stream: it asks where the next batch ends, then for the partitions of that batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rmqctl.client.core import Client
from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue

from .hints import with_hints
from .options import SourceOptions
from .planner import MessagePartition, Planner, task_of
from .progress_writer import ProgressWriter
from .ranges import QueueRange, admit, offsets_as_json, offsets_of_json
from .retained_queues import RetainedQueues
from .tasks import read_batches

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

    ADMITS_LIMITS = True
except ImportError:  # before 4.2
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]
    ADMITS_LIMITS = False

if TYPE_CHECKING:
    import pyarrow as pa


class MessageStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Continues where the last batch ended. Its offsets are by queue, as in `startingOffsets`."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        if options.has_ending:
            raise UsageError("The option endingOffsets is not supported for a stream.")
        self._planner = Planner(options, columns)
        # The offsets at the start of an AvailableNow run, which ends there.
        self._until: RetainedQueues | None = None
        self._latest: dict[str, Any] | None = None
        group = options.commit_group
        self._progress = None if group is None else ProgressWriter(options.access, group)
        # The monotonic time from which on a batch does not wait for more messages.
        self._hurry_at_s = 0.0

    @with_hints()
    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query starts."""

        async def ask(client: Client) -> dict[MessageQueue, int]:
            found = await self._planner.begin(client)
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
        """Return where the next batch ends: at the queues' ends, or after as many messages as the limit allows.

        That is the start while fewer messages wait than minOffsetsPerTrigger, which has no meaning for AvailableNow.
        """
        options = self._planner.options
        given = offsets_of_json(start)
        if self._progress is not None:
            # Spark calls commit() for a batch only when it plans the next one; the start is known earlier.
            self._progress.write(given)
        found = self._until or self._planner.ask_patiently(self._planner.found)
        self._planner.check_absent(found, given)
        begun = {**found.edge(latest=False), **given}
        ends = found.edge(latest=True)
        self._latest = offsets_as_json(ends)
        # A queue that is absent keeps its offset, and its end is unknown.
        latest = {**begun, **ends}
        waiting_count = sum(max(0, latest[mq] - begun[mq]) for mq in latest)
        now_s = time.monotonic()
        if self._until is None and waiting_count < options.min_offsets_per_trigger and now_s < self._hurry_at_s:
            return offsets_as_json(given)
        self._hurry_at_s = now_s + options.max_trigger_delay_s
        max_count = getattr(limit, "max_rows", None)
        return offsets_as_json(latest if max_count is None else admit(begun, latest, max_count))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the last known ends of the queues, without those that are absent, for the query's status."""
        return self._latest

    @with_hints()
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[MessagePartition]:
        """Return the partitions of a batch. After a crash, Spark asks for the same batch again."""
        begun, ending = offsets_of_json(start), offsets_of_json(end)

        async def ask(client: Client) -> list[QueueRange]:
            return await self._planner.ranges(client, begun, ending)

        return self._planner.partitions(self._planner.ask_patiently(ask))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, in a task."""
        return read_batches(task_of(partition))

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the checkpoint records a query's progress, and latestOffset() writes that of commitGroup."""

    def stop(self) -> None:
        """Do nothing: no connection stays open between questions."""


class MessageStreamReaderOf41(MessageStreamReader):
    """The same for Spark 4.0 and 4.1, which ask for the end without giving the start, and support no limit."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        if options.stream_only:
            raise UsageError(f"The option {options.stream_only[0]} needs Spark 4.2 or newer.")
        super().__init__(options, columns)
        self._ended: dict[str, Any] = {}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the queues' ends; a queue that is absent keeps the last one that was seen."""
        self._ended = super().latestOffset(self._ended, None)
        return self._ended
