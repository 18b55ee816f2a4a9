"""Files of offsets: what `offset export` and `offset show` write, Kafka's CSV, rpk's text. Bytes in, values out.

Without a heading only three columns are read: Kafka's `topic,partition,offset` (CsvUtils.CsvRecordNoGroup) and rpk's
`TOPIC PARTITION OFFSET` (rpk group seek --to-file). Four can be Kafka's `group,topic,partition,offset`
(CsvRecordWithGroup) or `topic,brokerName,queueId,offset`, and brokers have a topic with their own name: four columns
need a heading. A partition may include its broker in all formats, as in broker-a:0.
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
from msgspec.structs import replace

from rmqctl.errors import UsageError
from rmqctl.model.failure import SLAVE_ANSWERED
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.file_claims import require_fit, require_kind
from rmqctl.text.words import counted

API_VERSION = "rmqctl/v1"
EXPORT, LIST = "OffsetExport", "OffsetList"

_MAX_OFFSET = (1 << 63) - 1
_MAX_QUEUE_ID = (1 << 31) - 1
_MOST_SHOWN = 40
_HINT = (
    "Use the JSON or CSV of rmqctl offset export, Kafka's CSV (topic,partition,offset) or rpk's text "
    "(TOPIC PARTITION OFFSET)."
)
_HEADING_HINT = (
    "Write a heading in line 1, for example topic,brokerName,queueId,offset or group,topic,partition,offset."
)


class OffsetEntry(Struct, frozen=True, gc=False):
    """One queue and its offset, None if none is stored or it was not read; in the latter case `unread` says why.

    `is_readable`: false for a queue that no consumer could read when the file was written.

    `broker_name`: None for a bare partition. `line`: None in JSON, where items are numbered instead.
    """

    topic: str
    broker_name: str | None
    queue_id: int
    offset: int | None
    line: int | None
    unread: str | None = None
    is_readable: bool = True


class OffsetFile(Struct, frozen=True):
    """The content of a file: at least one entry, no queue twice.

    `group`: None if the file does not name it. `clusters`: empty if it names none. `not_read` is, in words, what could
    not be read when the file was made.
    """

    group: str | None
    entries: tuple[OffsetEntry, ...]
    clusters: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()

    def settle_group(self, asked: str | None) -> str:
        """Return the group that the offsets are for. Raises UsageError without a group, and for two."""
        if asked is None and self.group is None:
            raise UsageError("The file does not name a group.", hint="Name the group with --group.")
        if asked is not None and self.group is not None:
            hint = f"Name group {self.group}, or remove the group from the file to use its offsets for {asked}."
            require_fit("The file", "group", [self.group], [asked], hint=hint)
        return asked or self.group or ""


_Found = tuple[str | None, OffsetEntry]  # the group of an entry, and the entry


def parse_offsets(data: bytes) -> OffsetFile:
    """Read a file in any of the formats. Raises UsageError that names the wrong line, or item."""
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"Line {_line_of(data, error.start)} is not UTF-8.", hint="Save the file as UTF-8.") from None
    start = text.lstrip()
    if not start:
        raise UsageError("The file is empty.", hint=_HINT)
    if start[0] in "{[":
        return _read_json(data)
    not_read, text = take_comments(text)
    start = text.lstrip()
    is_csv = start.startswith('"') or "," in start.split("\n", 1)[0]
    rows = _csv_rows(text) if is_csv else _text_rows(text)
    return replace(_collect(_read_rows(rows)), not_read=not_read)


def _line_of(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _collect(found: Iterable[_Found], group: str | None = None, clusters: tuple[str, ...] = ()) -> OffsetFile:
    """Collect the entries. Raises UsageError for a second group, and for a queue that appears twice."""
    entries: list[OffsetEntry] = []
    seen: dict[tuple[str, str | None, int], int] = {}
    for number, (named_group, entry) in enumerate(found, 1):
        if not entry.topic:
            raise UsageError(f"{_where(entry, number)} has no topic.")
        if entry.broker_name == "":
            raise UsageError(f"{_where(entry, number)} has no broker before the queue.")
        if named_group == "":
            raise UsageError(f"{_where(entry, number)} has no group.")
        if named_group is not None and group not in (None, named_group):
            raise UsageError(
                f"{_where(entry, number)} is of group {named_group}, but the entries before are of {group}.",
                hint="Make one file per group. The columns topic,brokerName,queueId,offset need that heading.",
            )
        group = named_group if group is None else group
        first = seen.setdefault((entry.topic, entry.broker_name, entry.queue_id), number)
        if first != number:
            before = _where(entries[first - 1], first).lower()
            raise UsageError(f"{_where(entry, number)} has {_queue_name(entry)} a second time, after {before}.")
        entries.append(entry)
    if not entries:
        raise UsageError("The file does not name a queue.", hint=_HINT)
    return OffsetFile(group, tuple(entries), clusters)


def _where(entry: OffsetEntry, number: int) -> str:
    return f"Item {number}" if entry.line is None else f"Line {entry.line}"


def _queue_name(entry: OffsetEntry) -> str:
    if entry.broker_name is None:
        return f"queue {entry.queue_id} of {entry.topic}"
    return str(MessageQueue(entry.topic, entry.broker_name, entry.queue_id))


# What could not be read when a file was made: JSON lists it as errors, CSV as comments.

_COMMENT = "# not read: "
# Failures that are about stored offsets, or hide queues; with others (ages, retention) a file is complete.
_OF_OFFSETS = ("offsets", "stored offsets", "all stored offsets", "route of", "names of topics", SLAVE_ANSWERED)


def not_read_words(broker_name: str | None, what: str, sentence: str) -> str | None:
    """Return, in words, what a failure of reading a group leaves out of a file; None if the file is complete."""
    if not what.startswith(_OF_OFFSETS):
        return None
    return f"{what}{f' at {broker_name}' if broker_name else ''} ({sentence.rstrip('.')})"


def not_read_comment(words: str) -> str:
    """Return the CSV comment for words of not_read_words()."""
    return f"{_COMMENT}{words}"


def take_comments(text: str) -> tuple[tuple[str, ...], str]:
    """Return what was not read, by the comments of CSV, and the text with an empty line instead of each comment."""
    if _COMMENT not in text:
        return (), text
    lines = text.split("\n")
    found = [line for line in lines if line.startswith(_COMMENT)]
    rest = "\n".join("" if line.startswith(_COMMENT) else line for line in lines)
    return tuple(line.removeprefix(_COMMENT).strip() for line in found), rest


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
    is_readable: bool = True
    reasons: dict[str, str] = {}


class _Error(Struct, frozen=True, rename="camel"):
    what: str = ""
    message: str = ""
    broker_name: str | None = None


class _Document(Struct, frozen=True):
    items: list[_Item]
    group: str | None = None
    cluster: str | None = None
    errors: list[_Error] = []


def _read_json(data: bytes) -> OffsetFile:
    try:
        head = msgspec.json.decode(data, type=_Head)
        require_kind("The JSON", head.kind, (EXPORT, LIST), hint=_HINT)
        if head.api_version != API_VERSION:
            raise UsageError(f"The {head.kind} has apiVersion {head.api_version!r}; this rmqctl reads {API_VERSION}.")
        document = msgspec.json.decode(data, type=_Document)
    except msgspec.ValidationError as error:
        raise UsageError(f"The JSON cannot be read: {_one_based(str(error))}.", hint=_HINT) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(_malformed(data, str(error)), hint=_HINT) from None
    clusters = tuple(document.cluster.split(",")) if document.cluster else ()
    words = (not_read_words(error.broker_name, error.what, error.message) for error in document.errors)
    not_read = tuple(text for text in words if text is not None)
    return replace(_collect(_json_entries(document), document.group, clusters), not_read=not_read)


def _json_entries(document: _Document) -> Iterator[_Found]:
    copies = {error.broker_name for error in document.errors if error.what == SLAVE_ANSWERED}
    for number, item in enumerate(document.items, 1):
        reason = item.reasons.get("consumerOffset", Unknown.NEVER_COMMITTED)
        unread = None
        if item.consumer_offset is None and item.broker_name in copies:
            # A slave without an offset does not say that none is stored.
            reason = Unknown.SLAVE_ANSWERED
        if item.consumer_offset is None and reason != Unknown.NEVER_COMMITTED:
            unread = f"not read when the file was made ({reason})"
        _require_between(item.queue_id, "queue", _MAX_QUEUE_ID, f"Item {number}")
        if item.consumer_offset is not None:
            _require_between(item.consumer_offset, "offset", _MAX_OFFSET, f"Item {number}")
        yield (
            item.group,
            OffsetEntry(
                item.topic, item.broker_name, item.queue_id, item.consumer_offset, None, unread, item.is_readable
            ),
        )


def _one_based(message: str) -> str:
    """Return msgspec's message with items counted from 1; msgspec counts from 0."""
    message = re.sub(r"\$\.items\[(\d+)\]", lambda match: f"$.item {int(match[1]) + 1}", message)
    return message.replace("`", "").replace("$.", "").replace(" - at", ",")


def _malformed(data: bytes, message: str) -> str:
    if "truncated" in message:
        return f"The JSON is cut off after line {_line_of(data.rstrip(), len(data))}."
    place = re.search(r"\(byte (\d+)\)", message)
    line = f"Line {_line_of(data, int(place[1]))}" if place else "The file"
    return f"{line} is not valid JSON."


def _require_between(number: int, what: str, most: int, where: str) -> None:
    if number < 0:
        raise UsageError(f"{where}: {what} {number} is negative.")
    if number > most:
        raise UsageError(f"{where}: {what} {number} is more than RocketMQ's maximum ({most}).")


# CSV and text

_Row = tuple[int, Sequence[str]]  # line number, cells

_NO_HEADING = ("topic", "queue", "offset")
_HEADINGS = {
    "group": "group",
    "topic": "topic",
    "brokername": "broker",
    "queueid": "queue",
    "partition": "queue",
    "offset": "offset",
    "consumeroffset": "offset",
}
_HEADINGS_HINT = "Columns are group, topic, brokerName, queueId (or partition) and consumerOffset (or offset)."
# The other columns of `offset show -o csv`, which are ignored: they name neither a queue nor an offset to go to.
_OTHER_HEADINGS = frozenset(
    {
        "minoffset", "maxoffset", "pulloffset", "lag", "lost", "inflight", "duplicaterisk", "duplicaterisksource",
        "lasttimestamp", "timelagms", "timelagsource", "retentionleftms", "clientids",
    }
)  # fmt: skip


def _csv_rows(text: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UsageError(f"Line {line} is not valid CSV: {error}.", hint=_HINT) from None
        if row is None:
            return
        if row and (len(row) > 1 or row[0].strip()):
            yield line, row
        line = reader.line_num + 1  # a quoted name may span several


def _text_rows(text: str) -> Iterator[_Row]:
    for line, row in enumerate(io.StringIO(text, newline=None), 1):
        if cells := row.split():
            if len(cells) != len(_NO_HEADING):
                # In a table or TSV an empty cell would move the others.
                sentence = f"Line {line} has {counted(len(cells), 'column')}, not TOPIC PARTITION OFFSET."
                raise UsageError(sentence, hint=_HINT)
            yield line, cells


def _read_rows(rows: Iterator[_Row]) -> Iterator[_Found]:
    first_line, first = next(rows, (0, ()))
    if not first:
        return
    is_heading = _is_heading(first)
    if not is_heading and len(first) != len(_NO_HEADING):
        sentence = f"Line {first_line} has {counted(len(first), 'column')} without a heading."
        raise UsageError(sentence, hint=_HEADING_HINT if len(first) > len(_NO_HEADING) else _HINT)
    at = _columns(first_line, first) if is_heading else {column: index for index, column in enumerate(_NO_HEADING)}
    if not is_heading:
        yield _named(first_line, first, at)
    for line, cells in rows:
        if len(cells) != len(first):
            sentence = f"Line {line} has {counted(len(cells), 'column')}, line {first_line} has {len(first)}."
            raise UsageError(sentence)
        yield _named(line, cells, at)


def _is_heading(cells: Sequence[str]) -> bool:
    """Return whether a row is a heading: it has a known name, and no number as every row of data has."""
    names = [cell.strip() for cell in cells]
    return any(name.casefold() in _HEADINGS for name in names) and not any(name.isdecimal() for name in names)


def _columns(line: int, cells: Sequence[str]) -> dict[str, int]:
    """Return the index of each column. Raises UsageError for an unknown, repeated or missing heading."""
    found: dict[str, int] = {}
    for index, cell in enumerate(cells):
        name = cell.strip()
        column = _HEADINGS.get(name.casefold())
        if column is None and name.casefold() not in _OTHER_HEADINGS:
            hint = f"Rename or remove it. {_HEADINGS_HINT}"
            raise UsageError(f"Line {line}: unknown heading {_shortened(name)!r}.", hint=hint)
        if column in found:
            sentence = f"Line {line} has two columns for the {column}: {cells[found[column]].strip()} and {name}."
            raise UsageError(sentence, hint="Keep one of them.")
        if column is not None:
            found[column] = index
    for column in _NO_HEADING:
        if column not in found:
            sentence = f"Line {line} has no column for the {column}."
            raise UsageError(sentence, hint=_HEADINGS_HINT)
    return found


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


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
        hint = "Leave out lines without an offset." if not text and what == "offset" else _HINT
        raise UsageError(f"Line {line}: invalid {what} {_shortened(text)!r}, not a number.", hint=hint)
    if len(digits) > _MOST_SHOWN:
        # Python refuses to read very long ones.
        raise UsageError(f"Line {line}: {what} {text[:_MOST_SHOWN]}... has too many digits.")
    number = int(text)
    if not 0 <= number <= most:
        _require_between(number, what, most, f"Line {line}")
    return number
