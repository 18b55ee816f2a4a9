"""What concurrent and orderly consumption share: their workers, successful messages, and work on failed ones."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NotRequired, TypedDict

from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import Clock
from rmqctl.net.tasks import run_again, start_task, stop_tasks
from rmqctl.protocol.message import StoredMessage

from .batch import Batch
from .count_limit import CountLimit
from .expiry import RunningBatch
from .process_queue import ProcessQueue
from .reports.consume_observer import ConsumeObserver
from .send_back import RetrySender
from .settings import ConsumerSettings
from .workers import Workers

IsStalled = Callable[[float], bool]
OnSuccess = Callable[[MessageQueue, Sequence[StoredMessage]], None]


class ConsumptionNeeds(TypedDict):
    """What a Consumption calls.

    `acknowledge` receives the offset up to which a queue is done. `is_stalled` returns whether the event loop has not
    run for too long, at a monotonic time: messages are then kept until release(). `limit` ends consumption after some
    messages. `on_success` receives the consumed messages of a queue.
    """

    send_back: RetrySender
    acknowledge: Callable[[MessageQueue, int], None]
    watcher: ConsumeObserver
    is_stalled: NotRequired[IsStalled]
    limit: NotRequired[CountLimit | None]
    on_success: NotRequired[OnSuccess]


class Consumption(ABC):
    """Passes messages to the listener, and acknowledges them.

    The listener, and the start of a batch, run in workers, which subclasses make; everything else runs in the event
    loop.
    """

    _workers: Workers

    def __init__(self, settings: ConsumerSettings, clock: Clock, needs: ConsumptionNeeds) -> None:
        self._settings = settings
        self._clock = clock
        self._send_back = needs["send_back"]
        self._acknowledge = needs["acknowledge"]
        self._watcher = needs["watcher"]
        self._is_stalled: IsStalled = needs.get("is_stalled", lambda _: False)
        self._limit = needs.get("limit")
        self._on_success: OnSuccess = needs.get("on_success", lambda _, __: None)
        # Work on failed messages that outlasts their batches.
        self._running: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @abstractmethod
    def submit(self, process_queue: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Have messages of a process queue consumed."""

    @property
    @abstractmethod
    def is_idle(self) -> bool:
        """Whether no message is being consumed, waiting to be, or being sent back."""

    @abstractmethod
    def running(self) -> list[RunningBatch[Batch]]:
        """Return the running batches, the oldest first. Any thread may call it."""

    @abstractmethod
    def set_timeout(self, seconds: float) -> None:
        """Change the time limit of batches, including running ones."""

    @abstractmethod
    def release(self) -> None:
        """Have messages consumed that were kept, where nothing holds them back any more."""

    async def aclose(self) -> None:
        """Stop the workers and the sending back; ignore results of listeners from now on."""
        self._is_closed = True
        self._workers.close()
        await stop_tasks(self._running)

    def _settle_all(self, batches: list[Batch]) -> None:
        try:
            self._settle(batches)
        except Exception as error:  # noqa: BLE001 - otherwise no further result would be looked at
            self._watcher.broke("Results of the listener were not noted", error)

    @abstractmethod
    def _settle(self, batches: list[Batch]) -> None:
        """Handle the results of batches."""

    def _succeed(self, process_queue: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        process_queue.succeeded_at_ms = self._clock.now_ms()
        self._remove(process_queue, messages)
        self._on_success(process_queue.mq, messages)
        if self._limit is not None:
            self._limit.succeeded(len(messages))

    def _remove(self, process_queue: ProcessQueue, messages: Sequence[StoredMessage]) -> None:
        """Have messages count as done."""
        offset = process_queue.remove(messages)
        if offset is not None:
            self._acknowledge(process_queue.mq, offset)

    def _work_on(self, process_queue: ProcessQueue, work: Callable[[], Awaitable[None]], what: str) -> None:
        """Work on messages of a queue in the background. A queue that is given up may wait for it."""
        working = run_again(
            work, clock=self._clock, rest_s=self._settings.local_retry_s,
            on_error=partial(self._watcher.broke, f"{process_queue.mq}: {what}"),
        )  # fmt: skip
        start_task(working, self._running, process_queue.in_work)
