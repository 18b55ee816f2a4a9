"""Files of offsets: what `offset export` and `offset show` write, Kafka's CSV, rpk's text. Bytes in, values out.

Without a heading only three columns are read: Kafka's `topic,partition,offset` (CsvUtils.CsvRecordNoGroup) and rpk's
`TOPIC PARTITION OFFSET` (rpk group seek --to-file). Four can be Kafka's `group,topic,partition,offset`
(CsvRecordWithGroup) or `topic,brokerName,queueId,offset`, and brokers have a topic of their own name: a heading must
tell. A partition may have its broker everywhere, as broker-a:0.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rmqctl.errors import UsageError
from rmqctl.model.progress import Unknown
from rmqctl.model.queue import MessageQueue
from rmqctl.rules.file_claims import require_fit, require_kind
from rmqctl.rules.words import counted

from .offset_file_gaps import not_read_words, take_comments

API_VERSION = "rmqctl/v1"
EXPORT, LIST = "OffsetExport", "OffsetList"

_MAX_OFFSET = (1 << 63) - 1
_MAX_QUEUE_ID = (1 << 31) - 1
_MOST_SHOWN = 40
_HINT = (
    "Known are the JSON and CSV of rmqctl offset export, Kafka's CSV (topic,partition,offset) and rpk's text "
    "(TOPIC PARTITION OFFSET)."
)
_HEADING_HINT = (
    "Write a heading in line 1, for example topic,brokerName,queueId,offset or group,topic,partition,offset."
)


class OffsetEntry(Struct, frozen=True, gc=False):
    """One queue and its offset, None for "none is stored", or for one that was not read: `unread` then says why.

    `broker_name` is None where the file has a bare partition; `line` is None in JSON, which has no lines of its own.
    """

    topic: str
    broker_name: str | None
    queue_id: int
    offset: int | None
    line: int | None
    unread: str | None = None


class OffsetFile(Struct, frozen=True):
    """What a file says: at least one entry, no queue twice.

    `group` is None and `clusters` is empty where the file names none. `not_read` is what could not be read when it was
    made, in words.
    """

    group: str | None
    entries: tuple[OffsetEntry, ...]
    clusters: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()

    def settle_group(self, asked: str | None) -> str:
        """Return the group that the offsets are for. Raises UsageError for none and for two."""
        if asked is None and self.group is None:
            raise UsageError("The file names no group.", hint="Name the group with --group.")
        if asked is not None and self.group is not None:
            hint = f"Name group {self.group}, or remove the group from the file to use its offsets for {asked}."
            require_fit("The file", "group", [self.group], [asked], hint=hint)
        return asked or self.group or ""


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
        return _read_json(data)
    not_read, text = take_comments(text)
    start = text.lstrip()
    is_csv = start.startswith('"') or "," in start.split("\n", 1)[0]
    rows = _csv_rows(text) if is_csv else _text_rows(text)
    return replace(_collect(_read_rows(rows)), not_read=not_read)


def _line_of(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _collect(found: Iterable[_Found], group: str | None = None, clusters: tuple[str, ...] = ()) -> OffsetFile:
    """Put the entries together, of one group and each queue once. Raises UsageError."""
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
    return OffsetFile(group, tuple(entries), clusters)


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
            raise UsageError(f"The {head.kind} is not of {API_VERSION}, which this rmqctl reads.")
        document = msgspec.json.decode(data, type=_Document)
    except msgspec.ValidationError as error:
        raise UsageError(f"The JSON can't be read: {_one_based(str(error))}.", hint=_HINT) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(_malformed(data, str(error)), hint=_HINT) from None
    clusters = tuple(document.cluster.split(",")) if document.cluster else ()
    words = (not_read_words(error.broker_name, error.what, error.message) for error in document.errors)
    not_read = tuple(text for text in words if text is not None)
    return replace(_collect(_json_entries(document), document.group, clusters), not_read=not_read)


def _json_entries(document: _Document) -> Iterator[_Found]:
    for number, item in enumerate(document.items, 1):
        reason = item.reasons.get("consumerOffset", Unknown.NEVER_COMMITTED)
        unread = None
        if item.consumer_offset is None and reason != Unknown.NEVER_COMMITTED:
            unread = f"not read when the file was made ({reason})"
        _require_between(item.queue_id, "queue", _MAX_QUEUE_ID, f"Item {number}")
        if item.consumer_offset is not None:
            _require_between(item.consumer_offset, "offset", _MAX_OFFSET, f"Item {number}")
        yield item.group, OffsetEntry(item.topic, item.broker_name, item.queue_id, item.consumer_offset, None, unread)


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
# What `offset show -o csv` has besides: it tells neither whose offsets these are nor where to go.
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
            raise UsageError(f"Line {line} is no CSV: {error}.", hint=_HINT) from None
        if row is None:
            return
        if row and (len(row) > 1 or row[0].strip()):
            yield line, row
        line = reader.line_num + 1  # a quoted name may go over several


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
        sentence = f"Line {first_line} has {counted(len(first), 'column')} and no heading that names them."
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
    """Tell a heading from data: every row of data has a number, and no heading is one."""
    names = [cell.strip() for cell in cells]
    return any(name.casefold() in _HEADINGS for name in names) and not any(name.isdecimal() for name in names)


def _columns(line: int, cells: Sequence[str]) -> dict[str, int]:
    """Return where each column is. Raises UsageError for a heading that leaves open what a column is."""
    found: dict[str, int] = {}
    for index, cell in enumerate(cells):
        name = cell.strip()
        column = _HEADINGS.get(name.casefold())
        if column is None and name.casefold() not in _OTHER_HEADINGS:
            hint = f"Rename or remove it. {_HEADINGS_HINT}"
            raise UsageError(f"Line {line}: the heading {_shortened(name)!r} is not known.", hint=hint)
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
        raise UsageError(f"Line {line}: {_shortened(text)!r} is no number, so no {what}.", hint=hint)
    if len(digits) > _MOST_SHOWN:
        # Python refuses to read very long ones.
        raise UsageError(f"Line {line}: {what} {text[:_MOST_SHOWN]}... has too many digits.")
    number = int(text)
    if not 0 <= number <= most:
        _require_between(number, what, most, f"Line {line}")
    return number


# Brokers


def resolve_brokers(
    entries: Iterable[OffsetEntry], read_queue_counts: Mapping[tuple[str, str], int], missing: Collection[str] = ()
) -> dict[MessageQueue, OffsetEntry]:
    """Return the entries by queue. `read_queue_counts` are by (topic, broker name), of all topics named.

    Which queues brokers that are `missing` have is not known where they have no count.

    A bare partition is settled only where the topic lives on one broker. Raises UsageError for one that could be of
    several, for a queue that is not there, and for one that turns out to be named twice.
    """
    counts: dict[str, dict[str, int]] = {}
    for (topic, broker_name), count in sorted(read_queue_counts.items()):
        if count > 0:
            counts.setdefault(topic, {})[broker_name] = count
    resolved: dict[MessageQueue, OffsetEntry] = {}
    for entry in entries:
        there = counts.get(entry.topic, {})
        is_missing = entry.broker_name in missing and entry.broker_name not in there
        mq = (
            MessageQueue(entry.topic, entry.broker_name or "", entry.queue_id) if is_missing else _resolve(entry, there)
        )
        other = resolved.setdefault(mq, entry)
        if other is not entry:
            at = "" if entry.line is None else f" (lines {other.line} and {entry.line})"
            raise UsageError(f"{mq} is named twice{at}.")
    return resolved


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
