"""The dead-letter topic as the source of a replay."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from rmqctl.admin.groups.letter_reading import Letter, LetterReading, Letters, find_letters
from rmqctl.admin.messages.filter import MessageFilter
from rmqctl.changes.dlq.rules.replay import MARK
from rmqctl.client.core import Client
from rmqctl.model.failure import Failure
from rmqctl.protocol.properties import UNIQ_KEY

from .source import DeadLetter


class TopicSource:
    """The dead letters that a group had when they were looked up. `every` are where all of them are.

    `accepts` is a condition next to those of `wanted`.
    """

    def __init__(
        self, client: Client, letters: Letters, every: Letters, wanted: MessageFilter,
        accepts: Callable[[Letter], bool] | None, show: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        self._client, self._letters, self._every, self._wanted = client, letters, every, wanted
        self._accepts, self._show = accepts, show
        self._reading: LetterReading | None = None

    async def batches(self) -> AsyncGenerator[Sequence[DeadLetter]]:
        """Yield the dead letters, the oldest first."""
        reading = LetterReading(self._client, self._letters, self._wanted, on_progress=self._show)
        self._reading = reading
        accepts = self._accepts
        async with aclosing(reading.run()) as found:
            async for letters in found:
                wanted = [_of_letter(each) for each in letters if accepts is None or accepts(each)]
                if wanted:
                    yield wanted

    async def all_batches(self, *, marked_only: bool) -> AsyncGenerator[Sequence[DeadLetter]]:
        """Yield all, the oldest first; or those that a replay sent before."""
        wanted = MessageFilter(property_name=MARK if marked_only else None)
        self._reading = LetterReading(self._client, self._every, wanted, on_progress=self._show)
        async with aclosing(self._reading.run()) as found:
            async for letters in found:
                yield [_of_letter(each) for each in letters]

    def failures(self) -> Sequence[Failure]:
        """Return what could not be read."""
        return () if self._reading is None else self._reading.failures


class TopicLetters:
    """The requested dead letters of a group, looked up once: all sources that it makes read the same ones."""

    def __init__(self, group: str, wanted: MessageFilter, accepts: Callable[[Letter], bool] | None = None) -> None:
        self._group, self._wanted, self._accepts = group, wanted, accepts
        self._letters: Letters | None = None
        self._every: Letters | None = None

    async def source(self, client: Client, show: Callable[[int, int], None]) -> TopicSource:
        """Return a source; `show` receives the number of offsets read, and the total. Raises what find_letters does."""
        since_ms, until_ms = self._wanted.since_ms, self._wanted.until_ms
        if self._every is None:
            self._every = await find_letters(client, self._group)
        if self._letters is None and (since_ms is not None or until_ms is not None):
            self._letters = await find_letters(client, self._group, since_ms=since_ms, until_ms=until_ms)
        return TopicSource(client, self._letters or self._every, self._every, self._wanted, self._accepts, show)


def _of_letter(letter: Letter) -> DeadLetter:
    message, mq, properties = letter.message, letter.found.mq, letter.properties
    fields = message.fixed_fields()
    return DeadLetter(
        mq.broker_name, mq.queue_id, message.queue_offset, properties.get(UNIQ_KEY) or fields.offset_id,
        fields.stored_at_ms, fields.reconsume_times, fields.flag, properties, letter.body,
    )  # fmt: skip
