"""What is decided on the driver: which queues are read, from where to where, and by which tasks."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.sql.datasource import InputPartition

from rmqctl.admin.messages.pull import Expression
from rmqctl.admin.messages.search import check_sql
from rmqctl.admin.results import all_failed
from rmqctl.admin.topics.queues import fetch_route
from rmqctl.client.core import Client
from rmqctl.errors import NotRegisteredError, RmqctlError, UnreachableError, UsageError
from rmqctl.model.queue import MessageQueue
from rmqctl.pipeline.asking import ask_cluster
from rmqctl.text.words import listed

from .options import ReadPosition, SourceOptions
from .ranges import QueueRange, share_out
from .retained_queues import LostRange, RetainedQueues, fetch_read_offsets, fetch_retained_queues, losses_as_error
from .task_access import task_access
from .tasks import Task

_T = TypeVar("_T")

_LOG = logging.getLogger(__name__)

# How long to wait before a server that did not answer is asked again.
_AGAIN_S = 1.0
# Tasks for each core of the driver's machine, unless the options say how many.
_TASKS_PER_CORE = 4


class MessagePartition(InputPartition):
    """The part of a read that one task does."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.task = task


class Planner:
    """Plans on the driver; each question uses its own connections, because Spark calls from several processes."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self.options = options
        self.columns = columns
        self._losses: list[LostRange] = []
        # The absent queues of a stream that a warning has named.
        self._absent: frozenset[MessageQueue] = frozenset()

    def ask(self, question: Callable[[Client], Coroutine[Any, Any, _T]]) -> _T:
        """Return the answer to a question. Raises RmqctlError, with fail_on_data_loss also for lost offsets."""
        answer = ask_cluster(self.options.access, question, remembers=True)
        losses, self._losses = self._losses, []
        if losses and self.options.fail_on_data_loss:
            raise losses_as_error(losses)
        for loss in losses:
            _LOG.warning("%s", losses_as_error([loss]).sentence)
        return answer

    def ask_patiently(self, question: Callable[[Client], Coroutine[Any, Any, _T]]) -> _T:
        """Return the answer of ask(); while no server answers, ask again for as long as the timeout.

        A running stream must not end because a broker restarts.
        """
        give_up_s = time.monotonic() + self.options.access.timeout_s
        while True:
            try:
                return self.ask(question)
            except UnreachableError:
                if time.monotonic() >= give_up_s:
                    raise
            time.sleep(_AGAIN_S)

    async def found(self, client: Client) -> RetainedQueues:
        """Return what brokers currently retain of the topics; nothing when none matches the pattern."""
        return await fetch_retained_queues(client, self.options.topics)

    async def begin(self, client: Client) -> RetainedQueues:
        """Return the same before anything is read. Raises UsageError for no topic, and for an invalid SQL filter.

        Brokers do not report invalid SQL in a pull: they would answer it as without a filter. Raises UnreachableError
        when a broker does not answer, without fail_on_absent_broker only for one that is registered.
        """
        found = await self.found(client)
        absent = {mq: error for mq, error in found.unreached.items() if isinstance(error, NotRegisteredError)}
        if found.unreached and (self.options.fail_on_absent_broker or len(absent) < len(found.unreached)):
            raise unreached_error(found.unreached, otherwise="Set failOnAbsentBroker=false to read the other brokers.")
        if absent:
            _LOG.warning("Not reading %s.", _unreached_words(absent))
        if not found.spans:
            raise UsageError(
                f"No topic matches subscribePattern {self.options.topics.pattern!r}.",
                hint="It must match the whole name; for dead-letter topics, let it begin with %DLQ%.",
            )
        if self.options.sql is not None:
            for topic in dict.fromkeys(mq.topic for mq in found.spans):
                failures = await check_sql(client, await fetch_route(client, topic), self.options.sql)
                if failures:
                    raise all_failed(failure.error for failure in failures)
        return found

    def check_absent(self, found: RetainedQueues, begun: Collection[MessageQueue]) -> None:
        """Warn of queues of a stream that no broker has now; they are read when they are back.

        With fail_on_data_loss, raises RmqctlError for a topic without any queue: it may have been deleted.
        """
        absent = frozenset(filter(self.options.topics.takes, begun)) - found.spans.keys()
        gone = {mq.topic for mq in absent} - {mq.topic for mq in (*found.spans, *found.unreached)}
        if gone and self.options.fail_on_data_loss:
            raise RmqctlError(
                f"No registered broker has {listed(sorted(gone))}, which this stream reads.",
                hint="Set failOnDataLoss=false to continue with the other topics.",
            )
        if absent - self._absent:
            unreached = {mq: error for mq, error in found.unreached.items() if mq in absent}
            unknown = sorted(absent - unreached.keys())
            words = [f"{listed(unknown)}: no registered broker has them"] if unknown else []
            words += [_unreached_words(unreached)] if unreached else []
            _LOG.warning("Not reading now: %s.", "; ".join(words))
        self._absent = absent

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
        access = task_access(options.access)
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

    async def ranges(
        self, client: Client, start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]
    ) -> list[QueueRange]:
        """Return the ranges between two offsets of each queue; a queue without a start begins at its first offset.

        Messages and queues that were deleted meanwhile count as lost. Raises UnreachableError for messages of a broker
        that does not answer: they are not lost.
        """
        found = await self.found(client)
        unreached = {mq: error for mq, error in found.unreached.items() if end.get(mq, 0) > start.get(mq, 0)}
        if unreached:
            raise unreached_error(unreached, otherwise="Start the query again when the broker is back.")
        registered = set()
        if not end.keys() <= found.spans.keys():
            registered = {broker.broker_name for broker in (await client.cluster()).brokers}
        ranges = []
        for mq, end_offset in sorted(end.items()):
            span = found.spans.get(mq)
            first_offset = start.get(mq, 0 if span is None else span.min_offset)
            if first_offset == end_offset:
                continue
            if span is None:
                is_known = mq.broker_name in registered
                why = "the queue does not exist any more" if is_known else f"{mq.broker_name} is not registered"
                self._losses.append(LostRange(mq, first_offset, end_offset, why))
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


def unreached_error(unreached: Mapping[MessageQueue, UnreachableError], *, otherwise: str) -> UnreachableError:
    """Return the error for queues whose brokers do not answer; `otherwise` says what to do about a missing broker."""
    error = min(unreached.values(), key=lambda each: not isinstance(each, NotRegisteredError))
    words = f"Cannot read {_unreached_words(unreached)}."
    if not isinstance(error, NotRegisteredError):
        return error.reworded(words)
    return error.reworded(words, hint=" ".join(filter(None, (otherwise, error.hint))))


def _unreached_words(unreached: Mapping[MessageQueue, UnreachableError]) -> str:
    """Return a clause that names queues by broker and the reason."""
    by_sentence: dict[str, list[MessageQueue]] = {}
    for mq, error in sorted(unreached.items()):
        by_sentence.setdefault(error.sentence.rstrip("."), []).append(mq)
    return "; ".join(f"{listed(queues)} ({sentence})" for sentence, queues in by_sentence.items())


def task_of(partition: InputPartition) -> Task:
    """Return what the task of a partition reads."""
    if not isinstance(partition, MessagePartition):
        raise TypeError(f"a partition of another source: {partition!r}")
    return partition.task
