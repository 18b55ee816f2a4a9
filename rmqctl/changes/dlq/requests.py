"""Requests of a replay: which messages of a window are sent to a broker together."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.model.names import RETRY_PREFIX
from rmqctl.model.queue import MessageQueue
from rmqctl.model.send_result import OutgoingMessage
from rmqctl.protocol import sends
from rmqctl.protocol.properties import SHARDING_KEY
from rmqctl.rules.send_queues import split_batches

from .ledger import LedgerRow
from .source import DeadLetter

_BATCH_COUNT, _BATCH_BYTES = 100, 1 << 20


class ReplayItem(Struct, frozen=True, gc=False):
    """A dead letter, the message that is sent for it, and the target topic."""

    letter: DeadLetter
    message: OutgoingMessage
    topic: str

    @property
    def lane(self) -> tuple[str, str] | None:
        """The topic and sharding key of messages that stay in order in one queue. Retry topics have no order."""
        key = self.message.properties.get(SHARDING_KEY)
        return None if not key or self.topic.startswith(RETRY_PREFIX) else (self.topic, key)


class ReplayChunk(Struct, frozen=True):
    """The content of one request: a message, or several as parts of a batch."""

    items: list[ReplayItem]
    parts: list[bytes] | None = None


class ReplayRequest(Struct, frozen=True):
    """A chunk that is sent to a queue, with the ledger rows of its items."""

    mq: MessageQueue
    address: str
    chunk: ReplayChunk
    rows: list[LedgerRow]

    @property
    def place(self) -> tuple[str, str]:
        """The topic and the broker's name."""
        return self.mq.topic, self.mq.broker_name

    def split_first(self) -> tuple[ReplayRequest, ReplayRequest]:
        """Split a batch into a request with its first message alone, and one with the others."""
        items, parts = self.chunk.items, self.chunk.parts
        if parts is None:
            raise AssertionError("one message cannot be split")
        first = replace(self, chunk=ReplayChunk(items[:1]), rows=self.rows[:1])
        return first, replace(self, chunk=_batch(items[1:], parts[1:]), rows=self.rows[1:])


def make_chunks(topic: str, items: Sequence[ReplayItem]) -> list[ReplayChunk]:
    """Divide messages into requests: batches, except for retry topics and for messages that a batch cannot contain."""
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
    """Return a chunk; a single message is not a batch, so that a large one is compressed."""
    return ReplayChunk(items, parts if len(items) > 1 else None)
