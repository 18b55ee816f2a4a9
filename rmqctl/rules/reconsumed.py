"""How many messages a group that runs is given again after a reset, by what its members said of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample

from .confirmation import Written


def reconsumed_at_least(written: Written, baseline: GroupSample | None, samples: Sequence[GroupSample]) -> int | None:
    """Return how many offsets from the target on the group had passed before it went there; None where no member tells.

    A lower bound: members go on until their turn, and a sample is some time before it. `baseline` is from just before
    the write, `samples` from after it. What clients had consumed out of order past their position comes on top; what a
    filter keeps from them, and offsets without a message of theirs, are counted.
    """
    if not samples or not samples[-1].client_ids:
        return None  # no member receives anything
    positions = [] if written.before is None else [written.before]
    positions += _positions(written.mq, baseline, samples)
    return max(0, max(positions) - written.target) if positions else None


def _positions(mq: MessageQueue, baseline: GroupSample | None, samples: Sequence[GroupSample]) -> Iterator[int]:
    """Yield positions from before the turn: of the baseline, and of members that hold the queue unbroken since then.

    A member that goes to another offset takes the queue again (ProcessQueue). One that does not tell when it took the
    queue may have gone there and come back between two samples.
    """
    queue = baseline.queues.get(mq) if baseline is not None else None
    if queue is None:
        return
    begun_at_ms = {owner.client_id: owner.begun_at_ms for owner in queue.owners if not owner.is_dropped}
    yield from (owner.commit_offset for owner in queue.owners if owner.commit_offset is not None)
    for sample in samples:
        if (later := sample.queues.get(mq)) is None:
            continue
        for owner in later.owners:
            is_same = owner.begun_at_ms is not None and owner.begun_at_ms == begun_at_ms.get(owner.client_id)
            if is_same and owner.commit_offset is not None:
                yield owner.commit_offset
