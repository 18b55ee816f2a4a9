"""Queues that an orderly consumer gives up to another member: their batches end first, however long that takes."""

from __future__ import annotations

from rmqctl.model.consumption import ConsumerWarning
from rmqctl.net.clock import Clock, pause

from .process_queue import ProcessQueue
from .reports.problems import Problems

# How long a queue waits for its batch each time (RebalancePushImpl.tryRemoveOrderMessageQueue).
_BATCH_WAIT_S, _BATCH_LOOK_S = 0.5, 0.05
# What takes longer is reported.
_LONG_S = 10.0


async def has_ended(queue: ProcessQueue, clock: Clock, problems: Problems) -> bool:
    """Start no batch of a queue, and return whether none runs, after a short while."""
    now_s = clock.monotonic_s()
    queue.is_leaving, queue.leaving_since_s = True, min(queue.leaving_since_s, now_s)
    while queue.in_work and clock.monotonic_s() < now_s + _BATCH_WAIT_S:
        await pause(clock, _BATCH_LOOK_S)
    place = f"batch of {queue.mq}"
    if not queue.in_work:
        problems.works(ConsumerWarning.LOCK, place, f"{queue.mq}: the batch has ended")
        return True
    queue.unlock_tries += 1
    if clock.monotonic_s() - queue.leaving_since_s >= _LONG_S:
        problems(ConsumerWarning.LOCK, f"{queue.mq} is not given up yet, because a batch of it runs.", place, count=0)
    return False
