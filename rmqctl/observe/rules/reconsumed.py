"""How many messages are redelivered to a running group after a reset, by what its members report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmqctl.model.queue import MessageQueue
from rmqctl.model.sample import GroupSample
from rmqctl.rules.written_offsets import WrittenOffset


def reconsumed_at_least(
    written: WrittenOffset, baseline: GroupSample | None, samples: Sequence[GroupSample]
) -> int | None:
    """Return how far past the target the group had got before it moved there, in offsets; None without any report.

    The number is a lower bound, because members continue until they move, and the last sample is some time before that.
    `baseline` is from just before the write, `samples` are from after it. Messages consumed out of order past a
    client's position are not included; filtered messages and offsets without a message are.
    """
    if not samples or not samples[-1].client_ids:
        return None  # no member receives messages
    positions = [] if written.before is None else [written.before]
    positions += _positions(written.mq, baseline, samples)
    return max(0, max(positions) - written.target) if positions else None


def _positions(mq: MessageQueue, baseline: GroupSample | None, samples: Sequence[GroupSample]) -> Iterator[int]:
    """Yield positions from before the move: from the baseline, and from members that have held the queue since then.

    A member that moves to another offset restarts the queue (ProcessQueue). One that does not report when it was
    assigned the queue may have moved and returned between two samples.
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
