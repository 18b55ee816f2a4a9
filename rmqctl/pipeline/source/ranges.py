"""The offsets of a read, and how they are divided among tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.model.queue import MessageQueue

# A task costs about 10 ms, however little it reads: fewer messages are not worth a task of their own.
_SMALLEST_COUNT = 10_000


class QueueRange(Struct, frozen=True):
    """Offsets of one queue from `first_offset` to `end_offset` (exclusive); `address` is that of the broker."""

    mq: MessageQueue
    address: str
    first_offset: int
    end_offset: int

    @property
    def count(self) -> int:
        """How many offsets it has."""
        return self.end_offset - self.first_offset


def share_out(
    ranges: Sequence[QueueRange], *, min_count: int, max_count: int, smallest_count: int = _SMALLEST_COUNT
) -> list[tuple[QueueRange, ...]]:
    """Divide ranges, in order, into parts of equal size, one for each task.

    Small queues are read together, large ones by several tasks. The number of parts is limited to min_count and
    max_count; between them, each part has about smallest_count offsets. No part is empty, and each offset is in exactly
    one part.
    """
    ranges = [each for each in ranges if each.count > 0]
    total_count = sum(each.count for each in ranges)
    wanted = max(min_count, min(max_count, -(-total_count // smallest_count)))
    part_count = min(wanted, total_count)
    parts: list[tuple[QueueRange, ...]] = []
    part: list[QueueRange] = []
    done = 0
    for each in ranges:
        first_offset = each.first_offset
        while first_offset < each.end_offset:
            part_end = (len(parts) + 1) * total_count // part_count
            end_offset = min(each.end_offset, first_offset + part_end - done)
            part.append(QueueRange(each.mq, each.address, first_offset, end_offset))
            done += end_offset - first_offset
            first_offset = end_offset
            if done == part_end:
                parts.append(tuple(part))
                part = []
    return parts


def admit(
    start: Mapping[MessageQueue, int], latest: Mapping[MessageQueue, int], max_count: int
) -> dict[MessageQueue, int]:
    """Return the end offset of each queue such that all queues together give at most max_count messages.

    Each queue's share is proportional to its waiting messages, rounded so that the total is exactly max_count if that
    many wait. A queue whose latest offset is before its start is not advanced.
    """
    waiting = {mq: max(0, latest[mq] - start.get(mq, latest[mq])) for mq in sorted(latest)}
    total_count = sum(waiting.values())
    if total_count <= max_count:
        return {mq: start.get(mq, latest[mq]) + count for mq, count in waiting.items()}
    admitted, seen, given = {}, 0, 0
    for mq, count in waiting.items():
        seen += count
        # Computed from the running total, so that rounding errors never add up.
        share = seen * max_count // total_count - given
        given += share
        admitted[mq] = start.get(mq, latest[mq]) + share
    return admitted


def offsets_as_json(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, int]]:
    """Return offsets as Spark keeps them in a checkpoint, `{"Orders": {"broker-a:0": 17}}`.

    Their order is always the same, because Spark compares the text and would treat another order as new offsets.
    """
    made: dict[str, dict[str, int]] = {}
    for mq in sorted(offsets):
        made.setdefault(mq.topic, {})[f"{mq.broker_name}:{mq.queue_id}"] = offsets[mq]
    return made


def offsets_of_json(given: Mapping[str, Mapping[str, int]]) -> dict[MessageQueue, int]:
    """Parse the result of offsets_as_json()."""
    return {
        queue_of(topic, name): offset for topic, queues in given.items() for name, offset in queues.items()
    }  # fmt: skip


def queue_of(topic: str, name: str) -> MessageQueue:
    """Return the queue of a name like `broker-a:0`. Raises ValueError for another name."""
    broker_name, separator, queue_id = name.rpartition(":")
    if not separator:
        raise ValueError(f"{name!r} has no broker")
    return MessageQueue(topic, broker_name, int(queue_id))
