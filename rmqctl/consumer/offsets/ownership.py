"""Whether held queues are still this member's: after a stop or an outage, another member may have consumed them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from rmqctl.client.core import Client
from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.consumer.reports.problems import Report
from rmqctl.consumer.settings import ConsumerSettings
from rmqctl.errors import RmqctlError
from rmqctl.model.consumption import ConsumerWarning
from rmqctl.model.group import CLUSTERING
from rmqctl.net.clock import pause
from rmqctl.net.tasks import start_task, stop_tasks

from .store import OffsetStore


class Ownership:
    """Compares stored offsets with this member's: a larger one was stored by another member.

    `lose` gives up a dropped queue. `rebalanced` returns once a rebalance that starts now has ended.
    """

    def __init__(
        self, client: Client, settings: ConsumerSettings, offsets: OffsetStore, *, report: Report,
        lose: Callable[[ProcessQueue], object], rebalanced: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._client = client
        self._settings = settings
        self._offsets = offsets
        self._report = report
        self._lose = lose
        self._rebalanced = rebalanced
        self._tasks: set[asyncio.Task[None]] = set()
        # The number of stops so far.
        self.stop_count = 0

    def stood_still(self, queues: Collection[ProcessQueue]) -> None:
        """Hold back all queues until they are checked, once the process runs again."""
        self.stop_count += 1
        if self._settings.message_model != CLUSTERING:
            return
        for queue in queues:
            queue.is_on_hold = queue.is_doubtful = True
            self._offsets.doubt(queue.mq)
        start_task(self._check(list(queues)), self._tasks)

    async def aclose(self) -> None:
        """Check nothing more: queues that are held back stay so."""
        await stop_tasks(self._tasks)

    async def _check(self, queues: Collection[ProcessQueue]) -> None:
        # First: a member that came meanwhile may not have stored an offset yet.
        await self._rebalanced()
        await asyncio.gather(*map(self._check_one, queues))

    async def _check_one(self, queue: ProcessQueue) -> None:
        while queue.is_on_hold and not queue.dropped:
            try:
                await self.make_sure(queue)
            except RmqctlError:  # the pulls report it
                await pause(self._client.clock, self._settings.error_delay_s)

    async def make_sure(self, queue: ProcessQueue) -> bool:
        """Return whether a queue is still this member's; give it up if not. Raises RmqctlError, and stays in doubt."""
        if not queue.is_doubtful or self._settings.message_model != CLUSTERING:
            return not queue.dropped
        async with queue.checking:
            while queue.is_doubtful and not queue.dropped:
                stop_count = self.stop_count
                stored = await self._offsets.fetch(queue.mq)
                if not queue.dropped and stop_count == self.stop_count:
                    self._judge(queue, stored)
        return not queue.dropped

    def _judge(self, queue: ProcessQueue, stored: int | None) -> None:
        known = self._offsets.read(queue.mq)
        if known is None:
            known = queue.next_offset if queue.first_offset is None else queue.first_offset
        if stored is not None and stored > known:
            self._report(
                ConsumerWarning.OFFSET,
                f"{queue.mq}: another member has consumed from {known} to {stored}, or the queue was reset; "
                "it is taken again.",
            )
            queue.drop()
            self._lose(queue)
            return
        queue.is_doubtful = queue.is_on_hold = False
        self._offsets.trust(queue.mq)
