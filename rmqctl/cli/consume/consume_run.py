"""One run of `consume run`: join the group, consume until a stop condition, and leave the group."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rmqctl.client.duplicates import find_duplicates
from rmqctl.client.partial_answers import missing_brokers
from rmqctl.consumer.core import ConsumerCore
from rmqctl.consumer.count_limit import CountLimit
from rmqctl.consumer.offsets.start_words import start_words
from rmqctl.consumer.process_queue import UnackedMessages
from rmqctl.consumer.reports.failures import cause_of_error, describe_unacked
from rmqctl.errors import RmqctlError, UnreachableError
from rmqctl.model.consumption import ConsumerCounts, ConsumeResult
from rmqctl.model.group import BROADCASTING
from rmqctl.net.clock import pause
from rmqctl.net.stop_signals import on_stop_signals
from rmqctl.net.tasks import stop_tasks
from rmqctl.text.words import counted, listed

from .caught_up import CaughtUp
from .joining import find_group_faults

if TYPE_CHECKING:
    from rmqctl.client.core import Client
    from rmqctl.consumer.batch import AnyListener
    from rmqctl.consumer.reports.problems import Problem
    from rmqctl.consumer.settings import ConsumerSettings
    from rmqctl.model.group import Subscription
    from rmqctl.rules.allocate import Strategy
    from rmqctl.rules.clock_skew import SkewBounds

_BROKERS_EVERY_S = 30.0
_CAUGHT_UP_LOOK_S = 1.0
# How many looks at the brokers come between two at the group's configuration, which brokers send with all others.
_LOOKS_PER_GROUP = 10
_PARTLY_DONE, _INTERRUPTED = 8, 130
# The results of batches other than success.
_TOLD = frozenset(ConsumeResult) - {ConsumeResult.SUCCESS}


class ConsumeRun:
    """Consumes until a signal, a number of messages or a time limit. `say` and `warn` print for people.

    `check` raises an error that prevents joining. `is_from_given`: the user chose where to start. With `force`, it
    joins although a member has its client id. `show_error` shows the traceback of the first error of each cause.
    """

    def __init__(
        self, settings: ConsumerSettings, subscriptions: Sequence[Subscription], strategy: Strategy, *,
        limit_s: float | None, count: int | None, drain_s: float, say: Callable[[str], None],
        warn: Callable[[str], None], check: Callable[[Client], Awaitable[None]], is_from_given: bool = False,
        force: bool = False, until_caught_up: bool = False, show_error: Callable[[BaseException], None] | None = None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._subscriptions = subscriptions
        self._strategy = strategy
        self._limit_s = limit_s
        self._limit = None if count is None else CountLimit(count, self.stop)
        self._is_from_given = is_from_given
        self._force = force
        self._until_caught_up = until_caught_up
        self._caught_up: CaughtUp | None = None
        self._is_caught_up = False
        self._drain_s = drain_s
        self._say = say
        self._warn = warn
        self._check = check
        self._show_error = show_error
        self._shown_causes: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._signal_count = 0
        self._starting: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[list[UnackedMessages]] | None = None
        self._error: BaseException | None = None
        # Brokers that should be registered, and why they are missing.
        self._missing: dict[str, RmqctlError] = {}
        self._duplicates: set[str] = set()
        self._faults: set[str] = set()
        # Messages that are left then are not missing.
        self._is_enough = False

    def stop(self) -> None:
        """Start to stop, because enough messages succeeded. Any thread may call it."""
        self._is_enough = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._over.set)

    def fail(self, error: BaseException) -> None:
        """Start to stop, and raise this error at the end. Any thread may call it."""
        self._error = self._error or error
        self.stop()

    async def run(self, client: Client, listener: AnyListener) -> int:
        """Consume; return the exit code. Raises the errors of joining, and the first error given to fail()."""
        self._loop = asyncio.get_running_loop()
        threads = set(threading.enumerate())
        consumer = ConsumerCore(
            client,
            self._settings,
            self._subscriptions,
            listener,
            self._strategy,
            report=self._report,
            limit=self._limit,
        )
        with on_stop_signals(self._on_signal):
            if await self._start(consumer):
                topics = listed([each.topic for each in self._subscriptions])
                joined = f"Joined {self._settings.group} as {consumer.client_id}, for {topics}."
                self._say(f"{joined} Press Ctrl-C to leave.")
                self._say(_clock_words(consumer.broker_time.skews()))
                if self._is_from_given:
                    for sentence in start_words(consumer.holding.starts.found, self._settings.group, "--from"):
                        self._warn(sentence)
                tasks = [asyncio.ensure_future(self._watch_brokers(consumer))]
                if self._until_caught_up:
                    tasks.append(asyncio.ensure_future(self._end_when_caught_up(consumer)))
                if self._limit_s is not None:
                    tasks.append(asyncio.ensure_future(self._end_later(client)))
                for task in tasks:
                    task.add_done_callback(self._task_ended)
                await self._over.wait()
                await stop_tasks(tasks)
            code = await self._drain(consumer)
            self._tell_of_threads(threads)
            if self._error is not None:
                raise self._error
            return code

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """End the run when a part of it ended by a bug: it would never end by itself."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.fail(error)

    async def _start(self, consumer: ConsumerCore) -> bool:
        """Join the group; return False when a signal arrived first."""
        self._starting = asyncio.ensure_future(self._join(consumer))
        try:
            await self._starting
        except asyncio.CancelledError:
            if not self._signal_count:
                raise
            return False
        return True

    async def _join(self, consumer: ConsumerCore) -> None:
        await self._check(consumer.client)
        await self._check_brokers(consumer.client)
        await consumer.start(force=self._force)
        await self._check_group(consumer)

    async def _watch_brokers(self, consumer: ConsumerCore) -> None:
        for number in itertools.count(1):
            await pause(consumer.client.clock, _BROKERS_EVERY_S)
            await self._check_brokers(consumer.client)
            if number % _LOOKS_PER_GROUP == 0:
                await self._check_group(consumer)

    async def _check_group(self, consumer: ConsumerCore) -> None:
        """Warn of a configuration by which the group loses messages or gets none."""
        faults, unknown = await find_group_faults(consumer.client, consumer.routes.brokers(), self._settings.group)
        for sentence in faults - self._faults:
            self._warn(sentence)
        for sentence in unknown - self._faults:
            self._say(sentence)
        self._faults = faults | unknown

    async def _check_brokers(self, client: Client) -> None:
        """Warn of brokers that may have queues of the topics but are not registered, and of those with one name."""
        try:
            cluster = await client.fresh_cluster()
        except RmqctlError:
            return  # the consumer reports name servers that do not answer
        missing = missing_brokers(client, cluster, [each.topic for each in self._subscriptions])
        for name in missing.keys() - self._missing.keys():
            self._warn(f"Queues of {name} are not consumed. {missing[name].sentence}")
        for name in self._missing.keys() - missing.keys():
            self._say(f"{name} is registered again.")
        self._missing = missing
        for failure in await find_duplicates(client):
            if failure.error.sentence not in self._duplicates:
                self._duplicates.add(failure.error.sentence)
                self._warn(failure.error.sentence)

    async def _end_when_caught_up(self, consumer: ConsumerCore) -> None:
        topics = [each.topic for each in self._subscriptions]
        is_broadcasting = self._settings.message_model == BROADCASTING
        self._caught_up = CaughtUp(consumer, topics, is_broadcasting=is_broadcasting)
        await self._caught_up.begin()
        told: set[str] = set()
        while self._missing or not await self._caught_up.look():
            new = self._caught_up.unknown() - told
            for sentence in sorted(new):
                self._warn(sentence)
            told |= new
            await pause(consumer.client.clock, _CAUGHT_UP_LOOK_S)
        self._is_caught_up = True
        self._over.set()

    async def _end_later(self, client: Client) -> None:
        await pause(client.clock, self._limit_s or 0.0)
        self._over.set()

    async def _drain(self, consumer: ConsumerCore) -> int:
        waiting = sum(each.count for each in consumer.unfinished())
        if waiting and not self._is_enough:
            self._say(f"Ending: {counted(waiting, 'message')} left to consume...")
        # A second signal may already have arrived.
        self._draining = asyncio.ensure_future(consumer.drain(self._drain_s if self._signal_count < 2 else 0.0))
        try:
            left = await self._draining
        except asyncio.CancelledError:
            if self._signal_count < 2:
                raise
            left = consumer.unfinished()
        if left and not self._is_enough:
            self._warn(describe_unacked(left))
        if consumer.unstored:
            unstored = consumer.unstored
            where = listed([f"{each.what} at {each.broker_name}" for each in unstored], len(unstored))
            self._warn(f"Not stored; messages consumed since the last commit will be redelivered: {where}.")
        counts = consumer.counts
        is_caught_up = not self._until_caught_up or await self._tell_caught_up(counts)
        self._say(f"Left {self._settings.group}: {_count_words(counts)}.")
        if self._signal_count > 1:
            return _INTERRUPTED
        if not consumer.is_idle and self._is_enough:
            self._warn("Some messages were still being processed and will be redelivered.")
            return _PARTLY_DONE
        if consumer.unstored or self._duplicates or ((left or self._missing) and not self._is_enough):
            return _PARTLY_DONE
        if self._limit is not None and not self._limit.is_reached and self._error is None:
            missing = f"{self._limit.missing_count} of {counted(self._limit.count, 'message')}"
            if not counts.failed and not self._signal_count:
                self._warn(f"{missing} did not arrive within --for.")
                return UnreachableError.exit_code
            self._warn(f"{missing} did not succeed {'before the signal' if self._signal_count else 'within --for'}.")
            return _PARTLY_DONE
        return _PARTLY_DONE if not is_caught_up or (counts.failed and not counts.ok) else 0

    async def _tell_caught_up(self, counts: ConsumerCounts) -> bool:
        """Return whether everything was consumed that was stored at the start; warn of what was not."""
        if not self._is_caught_up and self._caught_up is not None and self._signal_count < 2:
            # What was consumed at the end counts too.
            self._is_caught_up = await self._caught_up.look_once() and not self._missing
        if not self._is_caught_up:
            left = "" if self._caught_up is None else self._caught_up.left()
            when = "before the signal" if self._signal_count else "within --for"
            self._warn(f"{self._settings.group} did not catch up {when}{': ' if left else ''}{left}.")
            return False
        if counts.waiting:
            them = counted(counts.waiting, "message")
            self._warn(f"{them} that failed will be redelivered later, or went to other members.")
        if counts.dead:
            self._warn(f"{counted(counts.dead, 'message')} became dead letters.")
        return not (counts.waiting or counts.dead)

    def _tell_of_threads(self, before: set[threading.Thread]) -> None:
        """Warn of threads that a listener started and that rmqctl does not wait for, unlike asyncio's own workers."""
        mine = [
            each.name
            for each in threading.enumerate()
            if each not in before and not each.daemon and not each.name.startswith("asyncio_")
        ]
        if mine:
            whose = f"{counted(len(mine), 'thread')} that the listener started"
            self._warn(f"rmqctl exits without waiting for {whose}: {listed(mine)}.")

    def _on_signal(self) -> None:
        self._signal_count += 1
        self._over.set()
        if self._starting is not None:
            self._starting.cancel()
        # Once: a third signal would interrupt leaving the group, which time-outs bound, and the reports after it.
        if self._signal_count == 2 and self._draining is not None:
            self._draining.cancel()

    def _report(self, problem: Problem) -> None:
        self._warn(problem.sentence)
        if problem.error is None or self._show_error is None:
            return
        cause = cause_of_error(problem.error)
        if cause not in self._shown_causes:
            self._shown_causes.add(cause)
            self._show_error(problem.error)


def _count_words(counts: ConsumerCounts) -> str:
    """Return what happened to the messages, and how the batches ended that did not succeed."""
    words = f"{counts.ok} consumed, {counts.failed} failed"
    if counts.expired:
        words += f" ({counts.expired} took too long)"
    if counts.skipped:
        words += f", {counts.skipped} skipped"
    if counts.sent_back:
        words += f"; {counts.sent_back} sent back"
    if counts.dead:
        words += f"; {counted(counts.dead, 'dead letter')}"
    labels = [f"{count} {result}" for result, count in counts.results.items() if result in _TOLD and count]
    return words + (f"; batches: {listed(labels, len(labels))}" if labels else "")


def _clock_words(skews: Mapping[str, SkewBounds]) -> str:
    """Return a sentence about the skew of the brokers' clocks, from which subscription versions are taken."""
    if not skews:
        return "Cannot read the brokers' clocks: subscription versions use this machine's clock."
    skewed = (f"{name} {skew.middle_ms:+} ms (+-{skew.error_ms})" for name, skew in sorted(skews.items()))
    return f"Clock skew against this machine: {listed(skewed)}."
