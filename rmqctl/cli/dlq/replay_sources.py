"""Where `dlq replay` reads dead letters from: the dead-letter topic, or a file of `dlq export`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from rmqctl.admin.groups.letter_reading import Letter, LetterReading, Letters
from rmqctl.admin.messages.filter import MessageFilter
from rmqctl.changes.dlq.rules.replay import MARK
from rmqctl.changes.dlq.source import DeadLetter
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure
from rmqctl.protocol.properties import UNIQ_KEY
from rmqctl.rules.file_claims import require_fit

if TYPE_CHECKING:
    from rmqctl.client.core import Client

    from .conditions import LetterQuery


class TopicSource:
    """The dead letters that a group had when they were looked up. `every` are where all of them are."""

    def __init__(
        self, client: Client, letters: Letters, every: Letters, wanted: LetterQuery, show: Callable[[int, int], None]
    ) -> None:
        self._client, self._letters, self._every, self._wanted, self._show = client, letters, every, wanted, show
        self._reading: LetterReading | None = None

    async def batches(self) -> AsyncGenerator[Sequence[DeadLetter]]:
        """Yield the dead letters, the oldest first."""
        reading = LetterReading(self._client, self._letters, self._wanted.filter, on_progress=self._show)
        self._reading = reading
        match = self._wanted.match
        async with aclosing(reading.run()) as found:
            async for letters in found:
                wanted = [_of_letter(each) for each in letters if match is None or match.accepts(each)]
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


def _of_letter(letter: Letter) -> DeadLetter:
    message, mq, properties = letter.message, letter.found.mq, letter.properties
    fields = message.fixed_fields()
    return DeadLetter(
        mq.broker_name, mq.queue_id, message.queue_offset, properties.get(UNIQ_KEY) or fields.offset_id,
        fields.stored_at_ms, fields.reconsume_times, fields.flag, properties, letter.body,
    )  # fmt: skip


class _Row(Struct):
    """A line of `dlq export`, with the fields that a replay needs."""

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
    """The dead letters of a file of JSON lines, identified by their place in the dead-letter topic.

    `here` are the brokers of the cluster. A file may name brokers that no longer exist, but a file that names none of
    `here` belongs to another cluster. `topic` are the dead letters of the cluster, None if the group has none: one of
    the file may have died again since, and its later dead letter be there only. `unread` is why they are unknown.
    """

    def __init__(
        self, path: str, group: str, here: Collection[str], topic: TopicSource | None, unread: Sequence[Failure] = ()
    ) -> None:
        self._path, self._group, self._here, self._topic, self._unread = path, group, here, topic, unread
        self._broker_names: set[str] = set()

    async def batches(self) -> AsyncGenerator[Sequence[DeadLetter]]:
        """Yield them in the order of the file. Raises UsageError for a line that is invalid or of another group.

        At the end of the file it raises UsageError if the file belongs to another cluster.
        """
        letters = self._letters()
        while batch := list(islice(letters, _BATCH_COUNT)):
            yield batch
        if self._broker_names.isdisjoint(self._here):
            hint = (
                "Name the other cluster with -n or --context. "
                "If its brokers no longer exist, replace brokerName in the file."
            )
            require_fit(f"--from-file {self._path}", "broker", self._broker_names, self._here, hint=hint)

    async def all_batches(self, *, marked_only: bool) -> AsyncGenerator[Sequence[DeadLetter]]:
        """Yield those of the file, and those of the cluster. Raises UsageError for an invalid line."""
        letters = (letter for letter in self._letters() if letter.mark or not marked_only)
        while batch := list(islice(letters, _BATCH_COUNT)):
            yield batch
        if self._topic is not None:
            async with aclosing(self._topic.all_batches(marked_only=marked_only)) as batches:
                async for found in batches:
                    yield found

    def _letters(self) -> Iterator[DeadLetter]:
        try:
            with Path(self._path).open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield self._letter(number, line)
        except OSError as error:
            raise UsageError(f"Cannot read {self._path}: {(error.strerror or str(error)).lower()}.") from None

    def failures(self) -> Sequence[Failure]:
        """Return what could not be read in the cluster: a line that cannot be read raises UsageError."""
        return self._unread if self._topic is None else self._topic.failures()

    def _letter(self, number: int, line: bytes) -> DeadLetter:
        try:
            row = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            sentence = f"--from-file {self._path}, line {number}: {str(error).rstrip('.')}."
            raise UsageError(
                sentence, hint="Create the file with rmqctl dlq export GROUP --outfile FILE.jsonl."
            ) from None
        where = f"--from-file {self._path}, line {number}"
        hint = f"Replay it with rmqctl dlq replay {row.group} --from-file {self._path}."
        require_fit(where, "group", [row.group], [self._group], hint=hint)
        self._broker_names.add(row.broker_name)
        return DeadLetter(
            row.broker_name, row.queue_id, row.queue_offset, row.message_id, row.stored_at_ms, row.reconsume_times,
            row.flag, row.properties, row.body,
        )  # fmt: skip


_DECODER = msgspec.json.Decoder(_Row)
_BATCH_COUNT = 500
