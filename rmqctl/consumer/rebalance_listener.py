"""What an application does when its consumer gets queues or gives them up: for example, to load and store its state."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rmqctl.errors import UsageError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.queue import MessageQueue
from rmqctl.net.clock import Clock, pause, wait_for
from rmqctl.net.daemon_threads import call_in_thread
from rmqctl.net.tasks import start_task, stop_tasks
from rmqctl.text.words import counted

from .process_queue import ProcessQueue
from .reports.failures import describe_error
from .reports.problems import Problems
from .settings import ConsumerSettings

# A call that takes longer is reported.
_NOTICE_S = 30.0
_LOOK_S = 0.05


class RebalanceListener:
    """Override what your application needs: plain functions, which are called in a thread, or coroutine functions.

    One call runs at a time, in order. Each queue that assigned() gets is passed later to either revoked() or lost().
    RocketMQ has no step in which members wait for each other: another member may get messages of a queue while this one
    still finishes.
    """

    def assigned(self, starts: Mapping[MessageQueue, int]) -> Awaitable[None] | None:
        """Prepare for queues, with the offsets at which they start. They are pulled once it has returned.

        If it raises, it is called again every few seconds (local_retry_s). A coroutine function may seek() here.
        """

    def revoked(self, mqs: Sequence[MessageQueue]) -> Awaitable[None] | None:
        """Finish with queues that are given up. Their running batches have ended, if that took at most revoke_wait_s.

        Offsets are stored after it has returned, or after revoke_wait_s.
        """

    def lost(self, mqs: Sequence[MessageQueue]) -> Awaitable[None] | None:
        """Forget queues that could not be finished; by default, the same as revoked().

        Their offsets were reset, or another member consumed them while this process was stopped. They may be assigned
        again at once.
        """
        return self.revoked(mqs)


class RebalanceCalls:
    """Calls a rebalance listener, if there is one, in the order in which queues are taken and given up.

    Raises UsageError for an object of another type.
    """

    def __init__(
        self, listener: RebalanceListener | None, settings: ConsumerSettings, clock: Clock, problems: Problems
    ) -> None:
        if not isinstance(listener, RebalanceListener | None):
            raise UsageError(f"The rebalance listener {listener!r} is not a RebalanceListener.")
        self._listener = listener
        self._settings = settings
        self._clock = clock
        self._problems = problems
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        # Taken queues whose assigned() has not returned, with an object for each take: a queue may be taken twice.
        self._waiting: dict[MessageQueue, object] = {}
        self._announced: set[MessageQueue] = set()
        self._lost: list[MessageQueue] = []
        # The call that runs: its method, and what it was given.
        self._running: tuple[str, object] | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is a listener."""
        return self._listener is not None

    def is_waiting(self, mq: MessageQueue) -> bool:
        """Return whether a queue must not be pulled, because assigned() has not returned."""
        return mq in self._waiting

    def took(self, mq: MessageQueue) -> None:
        """Note a taken queue."""
        if self._listener is not None:
            self._waiting[mq] = object()

    def announce(self, held: Mapping[MessageQueue, ProcessQueue]) -> None:
        """Call assigned() for taken queues that it has not been called for."""
        new = {mq: held[mq] for mq in self._waiting if mq not in self._announced}
        if new:
            self._announced.update(new)
            starts = {mq: queue.next_offset for mq, queue in new.items()}
            self._start(self._assign(starts, {mq: self._waiting[mq] for mq in new}, held))

    async def _assign(
        self, starts: dict[MessageQueue, int], takes: Mapping[MessageQueue, object],
        held: Mapping[MessageQueue, ProcessQueue],
    ) -> None:  # fmt: skip
        while not await self._call("assigned", starts, f"{counted(len(starts), 'queue', 'is')} not pulled meanwhile"):
            await pause(self._clock, self._settings.local_retry_s)
            # The call that failed may have moved queues.
            starts = {mq: held[mq].next_offset for mq in starts if self._waiting.get(mq) is takes[mq] and mq in held}
            if not starts:
                return
        self._problems.works(ConsumerWarning.REBALANCE, "assigned", "assigned() of the rebalance listener works again")
        for mq in starts:
            if self._waiting.get(mq) is takes[mq]:
                del self._waiting[mq]

    async def wait_until_prepared(self, queue: ProcessQueue) -> None:
        """Wait until assigned() has returned for a queue. Meanwhile, it does not expire."""
        while self.is_waiting(queue.mq) and not queue.dropped:
            queue.last_pull_s = self._clock.monotonic_s()
            await pause(self._clock, _LOOK_S)

    async def finish(self, leaving: Sequence[ProcessQueue]) -> None:
        """Wait until the running batches of queues that are given up have ended, then call revoked()."""
        until_s = self._clock.monotonic_s() + self._settings.revoke_wait_s
        while any(queue.in_work and not queue.dropped for queue in leaving) and self._clock.monotonic_s() < until_s:
            await pause(self._clock, _LOOK_S)
        # An orderly consumer keeps a queue, and its lock, until its batch has ended.
        is_kept = self._settings.is_orderly
        await self.revoke(queue.mq for queue in leaving if not (queue.dropped or (is_kept and queue.in_work)))

    async def revoke(self, mqs: Iterable[MessageQueue]) -> None:
        """Call revoked() for queues that are about to be given up, and wait for it."""
        mine = sorted(self._announced.intersection(mqs))
        if not mine:
            return
        self._forget(mine)
        calling = self._start(self._tell("revoked", mine))
        try:
            await wait_for(self._clock, asyncio.wait([calling]), self._settings.revoke_wait_s)
        except TimeoutError:
            name, argument = self._running or ("revoked", mine)
            took = f"has not returned after {self._settings.revoke_wait_s:g} s"
            when = "meanwhile" if argument is mine else "before revoked() is called"
            self._report(name, f"{took}: {counted(len(mine), 'queue', 'is')} given up {when}.")

    def lose(self, mq: MessageQueue) -> None:
        """Call lost() for a queue that is given up, unless revoke() was called for it."""
        was_announced = mq in self._announced
        self._forget([mq])
        if was_announced:
            self._lost.append(mq)
            if len(self._lost) == 1:
                self._start(self._tell_lost())

    async def _tell_lost(self) -> None:
        lost, self._lost = sorted(self._lost), []
        await self._tell("lost", lost)

    async def aclose(self) -> None:
        """Wait until running calls have ended, at most revoke_wait_s, and call nothing more."""
        try:
            await wait_for(self._clock, self._turn.acquire(), self._settings.revoke_wait_s)
        except TimeoutError:
            pass
        await stop_tasks(self._tasks)

    def _forget(self, mqs: Sequence[MessageQueue]) -> None:
        self._announced.difference_update(mqs)
        for mq in mqs:
            self._waiting.pop(mq, None)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return start_task(work, self._tasks)

    async def _tell(self, name: str, mqs: Sequence[MessageQueue]) -> None:
        await self._call(name, mqs, f"{counted(len(mqs), 'queue', 'is')} given up")

    async def _call(self, name: str, argument: object, effect: str) -> bool:
        """Call a method of the listener when it is its turn; report a failure, and return whether there was none."""
        async with self._turn:
            self._running = name, argument
            calling = asyncio.ensure_future(_run(getattr(self._listener, name), argument))
            try:
                while not calling.done():
                    try:
                        await wait_for(self._clock, asyncio.wait([calling]), _NOTICE_S)
                    except TimeoutError:
                        self._report(name, f"has not returned after {_NOTICE_S:g} s: {effect}.")
            finally:
                calling.cancel()
                self._running = None
            error = calling.result()
            if error is not None:
                self._report(name, f"failed ({describe_error(error)}): {effect}.", error)
            return error is None

    def _report(self, name: str, what: str, error: BaseException | None = None) -> None:
        sentence = f"{name}() of the rebalance listener {what}"
        self._problems(ConsumerWarning.REBALANCE, sentence, name, error=error)


async def _run(method: Callable[[Any], Awaitable[None] | None], argument: object) -> BaseException | None:
    """Return the error of a call: a task that raised sys.exit() would end the event loop."""
    call = partial(method, argument)
    try:
        answer = call() if inspect.iscoroutinefunction(method) else await call_in_thread(call)
        if inspect.isawaitable(answer):
            await answer
    except BaseException as error:  # noqa: BLE001
        return error
    return None
