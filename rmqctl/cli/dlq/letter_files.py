"""Files of dead letters: JSON lines, CSV, Parquet. All of them are lossless."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, fields

from rmqctl.errors import UsageError
from rmqctl.model.names import DLQ_PREFIX
from rmqctl.protocol.properties import KEYS, TAGS, UNIQ_KEY
from rmqctl.rules.dead_letters import given_up, origin_message_id, origin_topic

if TYPE_CHECKING:
    from rmqctl.admin.groups.letter_reading import Letter
    from rmqctl.pipeline.tables.letter_parquet import LetterParquet


class LetterRow(Struct, rename="camel", gc=False):
    """A dead letter in a file. `body` is the body as text if it is UTF-8, `body_base64` the body as bytes."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    msg_id: str
    offset_msg_id: str
    origin_topic: str | None
    origin_message_id: str | None
    given_up: str | None
    reconsume_times: int
    tags: str | None
    keys: str | None
    born_timestamp: int
    born_host: str
    store_timestamp: int
    store_host: str
    flag: int
    sys_flag: int
    properties: dict[str, str]
    body: str | None
    body_base64: bytes


FIELDS = tuple(field.encode_name for field in fields(LetterRow))


class _Place(Protocol):
    """A place that bytes are written to."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""


class LetterFile(Protocol):
    """A file that dead letters are written to."""

    def write(self, rows: Sequence[LetterRow]) -> None:
        """Write rows."""

    def end(self) -> None:
        """Write what follows the last row."""


def letter_row(letter: Letter) -> LetterRow:
    """Return the row of a dead letter."""
    message, properties, (topic, broker_name, queue_id) = letter.message, letter.properties, letter.found.mq
    read = message.fixed_fields()
    offset_id = read.offset_id
    try:
        text = letter.body.decode()
    except UnicodeDecodeError:
        text = None
    # Keyword arguments would be 50 % slower.
    return LetterRow(
        topic[len(DLQ_PREFIX) :], topic, broker_name, queue_id, message.queue_offset, read.commit_log_offset,
        properties.get(UNIQ_KEY) or offset_id, offset_id, origin_topic(properties), origin_message_id(properties),
        given_up(read.reconsume_times, properties), read.reconsume_times, properties.get(TAGS), properties.get(KEYS),
        read.born_at_ms, read.born_host, read.stored_at_ms, read.store_host, read.flag, read.sys_flag, properties, text,
        letter.body,
    )  # fmt: skip


class _JsonLines:
    def __init__(self, out: _Place) -> None:
        self._out = out
        self._encode = msgspec.json.Encoder().encode_lines  # bytes become base64

    def write(self, rows: Sequence[LetterRow]) -> None:
        self._out.write(self._encode(rows))

    def end(self) -> None:
        pass


_TO_JSON = json.JSONEncoder(ensure_ascii=False).encode


class _Csv:
    def __init__(self, out: _Place) -> None:
        self._out = out
        self._put([FIELDS])

    def write(self, rows: Sequence[LetterRow]) -> None:
        self._put(
            [
                (*astuple(row)[:-3], _TO_JSON(row.properties), row.body, base64.b64encode(row.body_base64).decode())
                for row in rows
            ]
        )

    def _put(self, rows: Sequence[Sequence[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        # A property written by Java can have a lone surrogate.
        self._out.write(text.getvalue().encode(errors="surrogatepass"))

    def end(self) -> None:
        pass


class _Parquet:
    def __init__(self, out: LetterParquet) -> None:
        self._out = out

    def write(self, rows: Sequence[LetterRow]) -> None:
        self._out.write([dict(zip(FIELDS, astuple(row), strict=True)) for row in rows])

    def end(self) -> None:
        self._out.end()


def _parquet(out: BinaryIO) -> LetterFile:
    try:
        from rmqctl.pipeline.tables.letter_parquet import LetterParquet
    except ImportError:
        hint = "Run pip install '.[spark]' in a checkout of rmqctl, or use --format jsonl."
        raise UsageError("Parquet needs pyarrow, which is not installed.", hint=hint) from None
    return _Parquet(LetterParquet(out))


FILES: dict[str, Callable[[Any], LetterFile]] = {"jsonl": _JsonLines, "csv": _Csv, "parquet": _parquet}
