"""Files of dead letters: JSON lines, CSV, Parquet. Nothing of a message is lost in any of them."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec

from rmqctl.errors import UsageError
from rmqctl.model.names import DLQ_PREFIX
from rmqctl.protocol.properties import UNIQ_KEY

from .letter_item import origin_fields

if TYPE_CHECKING:
    from rmqctl.admin.letter_reading import Letter

FIELDS = (
    "group", "topic", "brokerName", "queueId", "queueOffset", "commitLogOffset", "msgId", "offsetMsgId",
    "originTopic", "originMessageId", "givenUp", "reconsumeTimes", "tags", "keys", "bornTimestamp", "bornHost",
    "storeTimestamp", "storeHost", "flag", "sysFlag", "properties", "body", "bodyBase64",
)  # fmt: skip


class _Place(Protocol):
    """What takes bytes."""

    def write(self, data: bytes, /) -> object:
        """Take bytes."""


class LetterFile(Protocol):
    """What dead letters are written into."""

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Write rows, as letter_row() makes them. They are its own from then on."""

    def end(self) -> None:
        """Write what belongs behind the last one."""


def letter_row(letter: Letter) -> dict[str, Any]:
    """Return the fields of a dead letter, in the order of FIELDS. The body is bytes, and text where it is UTF-8."""
    message, properties, mq = letter.message, letter.properties, letter.found.mq
    fields = message.fixed_fields()
    offset_id = fields.offset_id
    try:
        text = letter.body.decode()
    except UnicodeDecodeError:
        text = None
    return {
        "group": mq.topic[len(DLQ_PREFIX) :],
        "topic": mq.topic,
        "brokerName": mq.broker_name,
        "queueId": mq.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": fields.commit_log_offset,
        "msgId": properties.get(UNIQ_KEY) or offset_id,
        "offsetMsgId": offset_id,
        **origin_fields(fields.reconsume_times, properties),
        "reconsumeTimes": fields.reconsume_times,
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
        "bornTimestamp": fields.born_at_ms,
        "bornHost": fields.born_host,
        "storeTimestamp": fields.stored_at_ms,
        "storeHost": fields.store_host,
        "flag": fields.flag,
        "sysFlag": fields.sys_flag,
        "properties": properties,
        "body": text,
        "bodyBase64": letter.body,
    }


class _JsonLines:
    def __init__(self, out: _Place) -> None:
        self._out = out
        self._encode = msgspec.json.Encoder().encode_lines  # bytes become base64

    def write(self, rows: list[dict[str, Any]]) -> None:
        self._out.write(self._encode(rows))

    def end(self) -> None:
        pass


_TO_JSON = json.JSONEncoder(ensure_ascii=False).encode


class _Csv:
    def __init__(self, out: _Place) -> None:
        self._out = out
        self._put([FIELDS])

    def write(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["properties"] = _TO_JSON(row["properties"])
            row["bodyBase64"] = base64.b64encode(row["bodyBase64"]).decode()
        self._put([tuple(row.values()) for row in rows])

    def _put(self, rows: Sequence[Sequence[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        # A property can hold a lone surrogate, out of Java.
        self._out.write(text.getvalue().encode(errors="surrogatepass"))

    def end(self) -> None:
        pass


def _parquet(out: BinaryIO) -> LetterFile:
    try:
        from rmqctl.pipeline.letter_parquet import LetterParquet
    except ImportError:
        hint = "Install it (pip install 'rmqctl[spark]'), or use --format jsonl."
        raise UsageError("Parquet needs pyarrow, which is not installed.", hint=hint) from None
    return LetterParquet(out)


FILES: dict[str, Callable[[Any], LetterFile]] = {"jsonl": _JsonLines, "csv": _Csv, "parquet": _parquet}
