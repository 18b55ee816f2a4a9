"""Dead letters to be replayed, from any source."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from rmqctl.changes.dlq.rules.replay import MARK, position_text
from rmqctl.model.failure import Failure


class DeadLetter(Struct, frozen=True, gc=False):
    """One dead letter: its place, its id (the unique key, else the broker's), and its content."""

    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str
    stored_at_ms: int
    reconsume_times: int
    flag: int
    properties: Mapping[str, str]
    body: bytes

    @property
    def mark(self) -> str:
        """The mark of the replay that sent the message before; "" if none did."""
        return self.properties.get(MARK, "")

    @property
    def position(self) -> str:
        """Its position as marks name it."""
        return position_text(self.broker_name, self.queue_id, self.queue_offset)


class LetterSource(Protocol):
    """A source that yields the same dead letters each time."""

    def batches(self) -> AsyncGenerator[Sequence[DeadLetter]]:
        """Yield the requested dead letters, in batches."""

    def all_batches(self, *, marked_only: bool) -> AsyncGenerator[Sequence[DeadLetter]]:
        """Yield all dead letters of the group that exist, requested or not; or those that a replay sent before."""

    def failures(self) -> Sequence[Failure]:
        """Return what could not be read the last time."""
