"""Requests of a replay: what of a window goes to a broker together."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.model.sending import OutgoingMessage
from rmqctl.protocol import sends
from rmqctl.rules.sending import split_batches

from .ledger import Row
from .replay_source import DeadLetter

_BATCH_COUNT, _BATCH_BYTES = 100, 1 << 20


class ReplayItem(Struct, frozen=True, gc=False):
    """A dead letter, the message that is sent of it, and its topic."""

    letter: DeadLetter
    message: OutgoingMessage
    topic: str


class ReplayChunk(Struct, frozen=True):
    """What goes in one request: a message, or some as parts of a batch."""

    items: list[ReplayItem]
    parts: list[bytes] | None = None


class ReplayRequest(Struct, frozen=True):
    """A chunk that goes to a queue. Its rows are those of its items."""

    mq: MessageQueue
    address: str
    chunk: ReplayChunk
    rows: list[Row]

    @property
    def place(self) -> tuple[str, str]:
        """The topic and the broker."""
        return self.mq.topic, self.mq.broker_name

    def split_first(self) -> tuple[ReplayRequest, ReplayRequest]:
        """Return a batch as a request of its first message alone, and one of the others."""
        items, parts = self.chunk.items, self.chunk.parts
        if parts is None:
            raise AssertionError("one message can't be split")
        first = replace(self, chunk=ReplayChunk(items[:1]), rows=self.rows[:1])
        return first, replace(self, chunk=_batch(items[1:], parts[1:]), rows=self.rows[1:])


def make_chunks(topic: str, items: Sequence[ReplayItem]) -> list[ReplayChunk]:
    """Cut messages into requests: batches, but for retry topics, which take none, and what a batch can't have."""
    if topic.startswith(RETRY_PREFIX):
        return [ReplayChunk([item]) for item in items]
    alone: list[ReplayChunk] = []
    plain: list[ReplayItem] = []
    parts: list[bytes] = []
    for item in items:
        try:
            parts.append(sends.batch_part(item.message))
            plain.append(item)
        except ValueError:
            alone.append(ReplayChunk([item]))
    sizes = map(sends.stored_bytes, parts)
    batches = split_batches(list(sizes), max_bytes=_BATCH_BYTES, max_count=_BATCH_COUNT)
    return [*alone, *(_batch(plain[batch], parts[batch]) for batch in batches)]


def _batch(items: list[ReplayItem], parts: list[bytes]) -> ReplayChunk:
    """Make a chunk; one message is none: a large one is compressed then."""
    return ReplayChunk(items, parts if len(items) > 1 else None)
