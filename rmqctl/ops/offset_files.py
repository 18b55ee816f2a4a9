"""Files of offsets: what `offset export` and `offset show` write, Kafka's CSV, rpk's text. Bytes in, values out.

Kafka's tool knows `topic,partition,offset` and, for several groups, `group,topic,partition,offset`, without a header
(CsvUtils.CsvRecordNoGroup, CsvRecordWithGroup); rpk `TOPIC PARTITION OFFSET` (rpk group seek --to-file). A partition
may stand with its broker everywhere, as broker-a:0.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from rmqctl.errors import UsageError
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue

API_VERSION = "rmqctl/v1"
EXPORT, LIST = "OffsetExport", "OffsetList"

_MAX_OFFSET = (1 << 63) - 1
_MAX_QUEUE_ID = (1 << 31) - 1
_MOST_SHOWN = 40
_HINT = (
    "Known are the JSON and CSV of rmqctl offset export, Kafka's CSV (topic,partition,offset) and rpk's text "
    "(TOPIC PARTITION OFFSET)."
)


class OffsetEntry(Struct, frozen=True, gc=False):
    """One queue and its offset, None for "none is stored".

    `broker_name` is None where the file has a bare partition; `line` is None in JSON, which has no lines of its own.
    """

    topic: str
    broker_name: str | None
    queue_id: int
    offset: int | None
    line: int | None


class OffsetFile(Struct, frozen=True):
    """What a file says: at least one entry, no queue twice. `group` is None where the file names none."""

    group: str | None
    entries: tuple[OffsetEntry, ...]


_Found = tuple[str | None, OffsetEntry]  # the group that stands beside an entry


def parse_offsets(data: bytes) -> OffsetFile:
    """Read a file; its content tells the format. Raises UsageError with the line, or the item, that is wrong."""
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"Line {_line_of(data, error.start)} is not UTF-8.", hint="Save the file as UTF-8.") from None
    start = text.lstrip()
    if not start:
        raise UsageError("The file is empty.", hint=_HINT)
    if start[0] in "{[":
        return _collect(_read_json(data))
    if start[0] == '"' or "," in start.split("\n", 1)[0]:
        return _collect(_read_rows(_csv_rows(text), _CSV_SHAPES))
    return _collect(_read_rows(_text_rows(text), _TEXT_SHAPES))


def _line_of(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _collect(found: Iterable[_Found]) -> OffsetFile:
    """Put the entries together, of one group and each queue once. Raises UsageError."""
    group: str | None = None
    entries: list[OffsetEntry] = []
    seen: dict[tuple[str, str | None, int], int] = {}
    for number, (named_group, entry) in enumerate(found, 1):
        if not entry.topic:
            raise UsageError(f"{_where(entry, number)} names no topic.")
        if entry.broker_name == "":
            raise UsageError(f"{_where(entry, number)} names no broker before the queue.")
        if named_group == "":
            raise UsageError(f"{_where(entry, number)} names no group.")
        if named_group is not None and group not in (None, named_group):
            raise UsageError(
                f"{_where(entry, number)} is of group {named_group}, what stands before it of {group}.",
                hint="Make a file of each group. The columns topic,brokerName,queueId,offset need that heading.",
            )
        group = named_group if group is None else group
        first = seen.setdefault((entry.topic, entry.broker_name, entry.queue_id), number)
        if first != number:
            before = _where(entries[first - 1], first).lower()
            raise UsageError(f"{_where(entry, number)} has {_queue_name(entry)} a second time, after {before}.")
        entries.append(entry)
    if not entries:
        raise UsageError("The file names no queue.", hint=_HINT)
    return OffsetFile(group, tuple(entries))


def _where(entry: OffsetEntry, number: int) -> str:
    return f"Item {number}" if entry.line is None else f"Line {entry.line}"


def _queue_name(entry: OffsetEntry) -> str:
    if entry.broker_name is None:
        return f"queue {entry.queue_id} of {entry.topic}"
    return str(MessageQueue(entry.topic, entry.broker_name, entry.queue_id))


# JSON


class _Head(Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""


class _Item(Struct, frozen=True, rename="camel", gc=False):
    topic: str
    broker_name: str
    queue_id: int
    consumer_offset: int | None
    group: str | None = None
    reasons: dict[str, str] = {}


class _Document(Struct, frozen=True):
    items: list[_Item]
    group: str | None = None


def _read_json(data: bytes) -> Iterator[_Found]:
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.kind not in (EXPORT, LIST):
            raise UsageError(f"The JSON has kind {head.kind!r}, not {EXPORT} or {LIST}.", hint=_HINT)
        if head.api_version != API_VERSION:
            raise UsageError(f"The {head.kind} is not of {API_VERSION}, which this rmqctl reads.")
        document = msgspec.json.decode(data, type=_Document)
    except msgspec.ValidationError as error:
        raise UsageError(f"The JSON can't be read: {_one_based(str(error))}.", hint=_HINT) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(_malformed(data, str(error)), hint=_HINT) from None
    for number, item in enumerate(document.items, 1):
        reason = item.reasons.get("consumerOffset", Unknown.NEVER_COMMITTED)
        if item.consumer_offset is None and reason != Unknown.NEVER_COMMITTED:
            mq = MessageQueue(item.topic, item.broker_name, item.queue_id)
            raise UsageError(
                f"Item {number}: the offset of {mq} could not be read when the file was made ({reason}).",
                hint="Make the file anew, or take the item out of it.",
            )
        _require_between(item.queue_id, "queue", _MAX_QUEUE_ID, f"Item {number}")
        if item.consumer_offset is not None:
            _require_between(item.consumer_offset, "offset", _MAX_OFFSET, f"Item {number}")
        group = document.group if item.group is None else item.group
        yield group, OffsetEntry(item.topic, item.broker_name, item.queue_id, item.consumer_offset, None)


def _one_based(message: str) -> str:
    """Return what msgspec says is wrong; it counts items from 0."""
    message = re.sub(r"\$\.items\[(\d+)\]", lambda match: f"$.item {int(match[1]) + 1}", message)
    return message.replace("`", "").replace("$.", "").replace(" - at", ",")


def _malformed(data: bytes, message: str) -> str:
    if "truncated" in message:
        return f"The JSON is cut off after line {_line_of(data.rstrip(), len(data))}."
    place = re.search(r"\(byte (\d+)\)", message)
    line = f"Line {_line_of(data, int(place[1]))}" if place else "The file"
    return f"{line} is no JSON."


def _require_between(number: int, what: str, most: int, where: str) -> None:
    if number < 0:
        raise UsageError(f"{where}: {what} {number} is negative.")
    if number > most:
        raise UsageError(f"{where}: {what} {number} is more than RocketMQ can hold ({most}).")


# CSV and text

_Row = tuple[int, Sequence[str]]  # its line, its cells

# What the columns are where no header names them.
_CSV_SHAPES: Mapping[int, Sequence[str]] = {
    3: ("topic", "queue", "offset"),
    4: ("group", "topic", "queue", "offset"),
    5: ("group", "topic", "broker", "queue", "offset"),
}
_TEXT_SHAPES = {3: _CSV_SHAPES[3]}
_HEADINGS = {
    "group": "group",
    "topic": "topic",
    "brokername": "broker",
    "queueid": "queue",
    "partition": "queue",
    "offset": "offset",
    "consumeroffset": "offset",
}


def _csv_rows(text: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UsageError(f"Line {line} is no CSV: {error}.", hint=_HINT) from None
        if row is None:
            return
        if row and (len(row) > 1 or row[0].strip()):
            yield line, row
        line = reader.line_num + 1  # a quoted name may go over several


def _text_rows(text: str) -> Iterator[_Row]:
    for line, row in enumerate(io.StringIO(text, newline=None), 1):
        if cells := row.split():
            yield line, cells


def _read_rows(rows: Iterator[_Row], shapes: Mapping[int, Sequence[str]]) -> Iterator[_Found]:
    first_line, first = next(rows, (0, ()))
    if not first:
        return
    columns = _header(first_line, first)
    is_data = columns is None
    if columns is None:
        if len(first) not in shapes:
            raise UsageError(f"Line {first_line} has {_columns(len(first))}.", hint=_HINT)
        columns = shapes[len(first)]
    at = {column: index for index, column in enumerate(columns) if column}
    if is_data:
        yield _named(first_line, first, at)
    for line, cells in rows:
        if len(cells) != len(first):
            raise UsageError(f"Line {line} has {_columns(len(cells))}, line {first_line} has {len(first)}.")
        yield _named(line, cells, at)


def _columns(count: int) -> str:
    return f"{count} column{'s' if count != 1 else ''}"


def _header(line: int, cells: Sequence[str]) -> Sequence[str] | None:
    """Return what each column is, None when the row is no header; columns that say nothing of offsets are "".

    Every row of data has a number, and no heading is one.
    """
    columns = [_HEADINGS.get(cell.strip().casefold(), "") for cell in cells]
    if any(cell.strip().isdecimal() for cell in cells) or "topic" not in columns or "offset" not in columns:
        return None
    for column in ("group", "topic", "broker", "queue", "offset"):
        count = columns.count(column)
        if count > 1 or (count == 0 and column == "queue"):
            raise UsageError(f"Line {line} has {count or 'no'} columns that tell the {column}.", hint=_HINT)
    return columns


def _named(line: int, cells: Sequence[str], at: Mapping[str, int]) -> _Found:
    broker_name = cells[at["broker"]] if "broker" in at else None
    queue = cells[at["queue"]]
    if broker_name is None and ":" in queue:
        broker_name, _, queue = queue.rpartition(":")
    entry = OffsetEntry(
        sys.intern(cells[at["topic"]]),
        broker_name,
        _number(queue, "queue", _MAX_QUEUE_ID, line),
        _number(cells[at["offset"]], "offset", _MAX_OFFSET, line),
        line,
    )
    return cells[at["group"]] if "group" in at else None, entry


def _number(cell: str, what: str, most: int, line: int) -> int:
    text = cell.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
        hint = "Leave out lines without an offset." if not text and what == "offset" else _HINT
        raise UsageError(f"Line {line}: {shown!r} is no number, so no {what}.", hint=hint)
    if len(digits) > _MOST_SHOWN:
        # Python refuses to read very long ones.
        raise UsageError(f"Line {line}: {what} {text[:_MOST_SHOWN]}... has too many digits.")
    number = int(text)
    if not 0 <= number <= most:
        _require_between(number, what, most, f"Line {line}")
    return number


# Brokers


def resolve_brokers(
    entries: Iterable[OffsetEntry], read_queue_counts: Mapping[tuple[str, str], int]
) -> list[tuple[MessageQueue, int | None]]:
    """Return each entry's queue and offset. `read_queue_counts` are by (topic, broker name), of all topics named.

    A bare partition is settled only where the topic lives on one broker. Raises UsageError for one that could be of
    several, for a queue that is not there, and for one that turns out to be named twice.
    """
    counts: dict[str, dict[str, int]] = {}
    for (topic, broker_name), count in sorted(read_queue_counts.items()):
        if count > 0:
            counts.setdefault(topic, {})[broker_name] = count
    resolved: dict[MessageQueue, OffsetEntry] = {}
    for entry in entries:
        mq = _resolve(entry, counts.get(entry.topic, {}))
        other = resolved.setdefault(mq, entry)
        if other is not entry:
            at = "" if entry.line is None else f" (lines {other.line} and {entry.line})"
            raise UsageError(f"{mq} is named twice{at}.")
    return [(mq, entry.offset) for mq, entry in resolved.items()]


def _resolve(entry: OffsetEntry, counts: Mapping[str, int]) -> MessageQueue:
    if not counts:
        raise UsageError(f"No broker has queues of topic {entry.topic} to read{_at(entry)}.")
    broker_name = entry.broker_name
    if broker_name is None:
        if len(counts) > 1:
            first = next(iter(counts))
            raise UsageError(
                f"Topic {entry.topic} is on {' and '.join(counts)}: queue {entry.queue_id} is not enough{_at(entry)}.",
                hint=f"Write the broker as well: {first}:{entry.queue_id} instead of {entry.queue_id}.",
            )
        broker_name = next(iter(counts))
    if entry.queue_id >= counts.get(broker_name, 0):
        there = " and ".join(f"{name}:0-{count - 1}" if count > 1 else f"{name}:0" for name, count in counts.items())
        raise UsageError(
            f"Topic {entry.topic} has no queue {broker_name}:{entry.queue_id}{_at(entry)}.", hint=f"It has {there}."
        )
    return MessageQueue(entry.topic, broker_name, entry.queue_id)


def _at(entry: OffsetEntry) -> str:
    return f" (line {entry.line})" if entry.line is not None else ""
