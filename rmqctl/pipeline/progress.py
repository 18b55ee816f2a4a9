"""How far a stream is behind the ends of its queues, from the progress that Spark reports."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from rmqctl.errors import UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.text.words import counted

from .source.ranges import offsets_of_json
from .source.stream_reader import ADMITS_LIMITS

Report = Callable[[StreamingQueryProgress, Mapping[MessageQueue, int | None]], None]

_LOG = logging.getLogger(__name__)


def offsets_behind(progress: StreamingQueryProgress) -> dict[MessageQueue, int | None]:
    """Return how many offsets of each queue a query has not processed, None for a queue that no broker has now.

    The ends are those when the batch was planned. With tags or SQL, offsets also count messages that do not match.
    Sources of other formats are left out. Raises UsageError before Spark 4.2, which does not ask for the ends.
    """
    _require_ends()
    behind: dict[MessageQueue, int | None] = {}
    for source in progress.sources:
        done, ends = _offsets(source.endOffset), _offsets(source.latestOffset)
        for mq, offset in done.items():
            behind[mq] = max(0, ends[mq] - offset) if mq in ends else None
    return behind


def log_behind(progress: StreamingQueryProgress, behind: Mapping[MessageQueue, int | None]) -> None:
    """Log a line at level INFO: the sum, the queue with most, and the number of unknown queues."""
    known = {mq: count for mq, count in behind.items() if count is not None}
    sentence = f"Stream {progress.name or progress.id} is {sum(known.values()):,} offsets behind"
    if any(known.values()):
        most = max(known, key=known.__getitem__)
        sentence += f", {known[most]:,} of them in {most}"
    unknown_count = len(behind) - len(known)
    _LOG.info("%s.", f"{sentence}; {counted(unknown_count, 'queue', 'is')} unknown" if unknown_count else sentence)


class OffsetsBehindListener(StreamingQueryListener):
    """Reports how far behind each stream of a session is, to the log or to a function of yours.

    Add it with `spark.streams.addListener(OffsetsBehindListener(spark))`. It reports after each batch, and about every
    10 s without one (spark.sql.streaming.noDataProgressEventInterval). Raises UsageError as offsets_behind() does.
    """

    def __init__(self, session: SparkSession, report: Report = log_behind) -> None:
        _require_ends()
        self._session = session
        self._report = report

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report after a batch."""
        self._look(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Report without a batch: messages can wait for minOffsetsPerTrigger, or for a broker that is absent."""
        query = self._session.streams.get(str(event.id))
        if query is not None and (progress := query.lastProgress) is not None:
            self._look(progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing."""

    def _look(self, progress: StreamingQueryProgress) -> None:
        if behind := offsets_behind(progress):
            self._report(progress, behind)


def _require_ends() -> None:
    if not ADMITS_LIMITS:
        raise UsageError("Offsets behind need Spark 4.2 or newer.")


def _offsets(text: str | None) -> dict[MessageQueue, int]:
    """Return the offsets of a source, nothing for a source of another format."""
    try:
        return offsets_of_json(json.loads(text or "{}"))
    except (ValueError, AttributeError):
        return {}
