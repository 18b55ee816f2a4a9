"""A file of `dlq export` as the source of `dlq replay`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from rmqctl.changes.dlq.source import DeadLetter
from rmqctl.changes.dlq.topic_source import TopicSource
from rmqctl.errors import UsageError
from rmqctl.model.failure import Failure
from rmqctl.rules.file_claims import require_fit


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
