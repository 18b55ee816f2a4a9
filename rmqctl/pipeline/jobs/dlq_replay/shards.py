"""Divides the lanes of a window among tasks. What is in a shard stays there: each attempt at it finds the same rows."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from rmqctl.changes.dlq.lanes import Lanes
from rmqctl.changes.dlq.requests import ReplayChunk, ReplayRequest
from rmqctl.errors import RmqctlError
from rmqctl.pipeline.source.task_access import TaskAccess


class Errand(Struct, frozen=True):
    """What is the same for all shards. `ledger_id` begins the marks of the copies; an attempt may take `most_s`."""

    access: TaskAccess
    ledger_id: str
    producer_group: str
    most_s: float


class Shard(Struct, frozen=True):
    """The lanes of one task, with their numbers in the window."""

    errand: Errand
    numbers: tuple[int, ...]
    lanes: tuple[tuple[ReplayRequest, ...], ...]


class ShardResult(Struct):
    """The result of a shard: the stored requests in order, each with its lane's number, its offsets, and their safety.

    `errors` are those of lanes by number, `failing` are topics and brokers that failed. An earlier attempt has sent
    `found_count` of the messages.
    """

    stored: list[tuple[int, list[int], bool]] = field(default_factory=list)
    errors: dict[int, RmqctlError] = field(default_factory=dict)
    failing: set[tuple[str, str]] = field(default_factory=set)
    found_count: int = 0


def share_out(lanes: Lanes, count: int, errand: Errand) -> list[Shard]:
    """Return at most `count` shards with about as many messages each.

    A shard has neighbouring queues: a later attempt has to read only those.
    """
    numbers = sorted(range(len(lanes)), key=lambda number: lanes[number][0].mq)
    share_size = max(1, -(-sum(_size(lane) for lane in lanes) // count))
    parts: list[list[int]] = [[]]
    size = 0
    for number in numbers:
        if size >= share_size and len(parts) < count:
            parts.append([])
            size = 0
        parts[-1].append(number)
        size += _size(lanes[number])
    return [Shard(errand, tuple(part), tuple(_lean(lanes[number]) for number in part)) for part in parts if part]


def _size(lane: Sequence[ReplayRequest]) -> int:
    return sum(len(request.rows) for request in lane)


def _lean(lane: Sequence[ReplayRequest]) -> tuple[ReplayRequest, ...]:
    """Return requests without what only the driver needs: the messages of a batch, which its parts contain."""
    return tuple(
        request if request.chunk.parts is None else replace(request, chunk=ReplayChunk([], request.chunk.parts))
        for request in lane
    )
