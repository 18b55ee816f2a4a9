"""Where `dlq replay` reads dead letters from: the dead-letter topic, or a file of `dlq export`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from rmqctl.admin.letter_reading import Letter, LetterReading, Letters
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure
from rmqctl.ops.replay_source import DeadLetter
from rmqctl.protocol.properties import UNIQ_KEY

if TYPE_CHECKING:
    from rmqctl.client.core import Client

    from .reading import Wanted


class TopicSource:
    """The dead letters of a group that were there when they were looked up."""

    def __init__(self, client: Client, letters: Letters, wanted: Wanted, show: Callable[[int, int], None]) -> None:
        self._client, self._letters, self._wanted, self._show = client, letters, wanted, show
        self._reading: LetterReading | None = None

    async def batches(self) -> AsyncGenerator[Sequence[DeadLetter]]:
        """Yield them, the oldest first."""
        reading = LetterReading(self._client, self._letters, self._wanted.filter, on_progress=self._show)
        self._reading = reading
        match = self._wanted.match
        async with aclosing(reading.run()) as found:
            async for letters in found:
                wanted = [_of_letter(each) for each in letters if match is None or match.accepts(each)]
                if wanted:
                    yield wanted

    def failures(self) -> Sequence[Failure]:
        """Return what could not be read."""
        return () if self._reading is None else self._reading.failures


def _of_letter(letter: Letter) -> DeadLetter:
    message, mq, properties = letter.message, letter.found.mq, letter.properties
    fields = message.fixed_fields()
    return DeadLetter(
        mq.broker_name, mq.queue_id, message.queue_offset, properties.get(UNIQ_KEY) or fields.offset_id,
        fields.stored_at_ms, fields.reconsume_times, fields.flag, properties, letter.body,
    )  # fmt: skip


class _Row(Struct):
    """A line of `dlq export`; what is not needed of it is left out."""

    group: str
    broker_name: str = msgspec.field(name="brokerName")
    queue_id: int = msgspec.field(name="queueId")
    queue_offset: int = msgspec.field(name="queueOffset")
    message_id: str = msgspec.field(name="msgId")
    stored_at_ms: int = msgspec.field(name="storeTimestamp")
    reconsume_times: int = msgspec.field(name="reconsumeTimes")
    flag: int
    properties: dict[str, str]
    body: bytes = msgspec.field(name="bodyBase64")


class FileSource:
    """The dead letters of a file of JSON lines. Each is known by the place that it had in the dead-letter topic."""

    def __init__(self, path: str, group: str) -> None:
        self._path, self._group = path, group

    async def batches(self) -> AsyncGenerator[Sequence[DeadLetter]]:
        """Yield them in the order of the file. Raises UsageError for a line that is none of them."""
        letters = self._letters()
        while batch := list(islice(letters, _BATCH_COUNT)):
            yield batch

    def _letters(self) -> Iterator[DeadLetter]:
        try:
            with Path(self._path).open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield self._letter(number, line)
        except OSError as error:
            raise UsageError(f"--from-file {self._path}: {(error.strerror or str(error)).lower()}.") from None

    def failures(self) -> Sequence[Failure]:
        """Return nothing: what can't be read ends the reading."""
        return ()

    def _letter(self, number: int, line: bytes) -> DeadLetter:
        try:
            row = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            sentence = f"--from-file {self._path}, line {number}: {str(error).rstrip('.')}."
            raise UsageError(sentence, hint="rmqctl dlq export GROUP --to FILE.jsonl writes such files.") from None
        if row.group != self._group:
            raise UsageError(f"--from-file {self._path}, line {number}: it is of group {row.group}, not {self._group}.")
        return DeadLetter(
            row.broker_name, row.queue_id, row.queue_offset, row.message_id, row.stored_at_ms, row.reconsume_times,
            row.flag, row.properties, row.body,
        )  # fmt: skip


_DECODER = msgspec.json.Decoder(_Row)
_BATCH_COUNT = 500
