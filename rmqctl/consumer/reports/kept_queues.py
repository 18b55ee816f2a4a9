"""Reports about queues of an orderly consumer that are not given up, because their batches run for long."""

from __future__ import annotations

from rmqctl.consumer.process_queue import ProcessQueue
from rmqctl.model.consumption import ConsumerWarning

from .problems import Problems

# What takes longer is reported.
_LONG_S = 10.0


def report_kept(problems: Problems, queue: ProcessQueue, now_s: float) -> None:
    """Report that a batch keeps its queue from another member, or that it has ended."""
    place = f"batch of {queue.mq}"
    if not queue.in_work:
        problems.works(ConsumerWarning.LOCK, place, f"{queue.mq}: the batch has ended")
    elif min(batch.started_s for batch in queue.in_work) <= now_s - _LONG_S:
        problems(ConsumerWarning.LOCK, f"{queue.mq} is not given up yet, because a batch of it runs.", place, count=0)
