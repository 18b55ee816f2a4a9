"""Which offsets make up a read, and how they are shared out to tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from rmqctl.model.queue import MessageQueue

# A task costs some 10 ms whatever it reads: fewer messages than that are not worth one of their own.
_SMALLEST_COUNT = 10_000


class QueueRange(Struct, frozen=True):
    """Offsets of one queue, from `first_offset` up to, not including, `end_offset`; `address` is who holds them."""

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
    """Cut ranges, one behind the other, into parts of equal size, one for each task.

    So small queues are read together and large ones by several tasks. There are as many parts as have smallest_count
    offsets, but min_count to max_count; never an empty one. Each offset is in exactly one.
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
    """Return how far each queue may be read when all together give max_count messages at most.

    Each gets its share by what waits in it, rounded so that exactly max_count come while so many wait. A queue whose
    end stands before its start stays there.
    """
    waiting = {mq: max(0, latest[mq] - start.get(mq, latest[mq])) for mq in sorted(latest)}
    total_count = sum(waiting.values())
    if total_count <= max_count:
        return {mq: start.get(mq, latest[mq]) + count for mq, count in waiting.items()}
    admitted, seen, given = {}, 0, 0
    for mq, count in waiting.items():
        seen += count
        # Of the running total, so that roundings never add up.
        share = seen * max_count // total_count - given
        given += share
        admitted[mq] = start.get(mq, latest[mq]) + share
    return admitted


def offsets_as_json(offsets: Mapping[MessageQueue, int]) -> dict[str, dict[str, int]]:
    """Return offsets as Spark keeps them in a checkpoint, `{"Orders": {"broker-a:0": 17}}`.

    Their order is always the same: Spark compares the text, and takes another order for news.
    """
    made: dict[str, dict[str, int]] = {}
    for mq in sorted(offsets):
        made.setdefault(mq.topic, {})[f"{mq.broker_name}:{mq.queue_id}"] = offsets[mq]
    return made


def offsets_of_json(given: Mapping[str, Mapping[str, int]]) -> dict[MessageQueue, int]:
    """Read what offsets_as_json() made."""
    return {
        queue_of(topic, name): offset for topic, queues in given.items() for name, offset in queues.items()
    }  # fmt: skip


def queue_of(topic: str, name: str) -> MessageQueue:
    """Return the queue that is called `broker-a:0`."""
    broker_name, _, queue_id = name.rpartition(":")
    return MessageQueue(topic, broker_name, int(queue_id))
