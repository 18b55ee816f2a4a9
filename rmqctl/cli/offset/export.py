"""rmqctl offset export: write a group's stored offsets in a form that can be imported."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
import io
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import replace

from rmqctl.cli.arguments import Force, Group, TopicPatterns
from rmqctl.cli.files import new_file, write_file
from rmqctl.cli.globals import TABLE_FORMATS
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import hints_of, render
from rmqctl.cli.output.text import printable, to_stderr
from rmqctl.errors import UsageError
from rmqctl.model.group import GroupState
from rmqctl.model.progress import CutQueue, QueueProgress, Unknown
from rmqctl.rules.readable_queues import describe_all_unreadable
from rmqctl.text.times import time_fields

if TYPE_CHECKING:
    from rmqctl.admin.offsets.reading import GroupProgress
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl offset export my-group > my-group.json
  rmqctl offset export my-group --topic orders --outfile orders.json
  rmqctl offset export my-group -o csv     # topic,brokerName,queueId,offset
  rmqctl offset export my-group --kafka    # topic,partition,offset
  rmqctl offset export my-group --where brokerName=broker-a

\b
Formats:
  -o json  the default: one document with the group, the cluster, the time,
           and each queue's minOffset and maxOffset; a queue without a stored
           offset is null, with its reason; isReadable is false for a queue
           that no consumer can read since readQueueNums was reduced
  -o csv   only readable queues with a stored offset; stderr lists the others
  --kafka  the same as CSV of Kafka's tool, without a heading: the partition
           is broker-a:0 if its topic is on several brokers, else 0

A table format set in the context counts as the default. jsonl, yaml, tsv, name and --columns are rejected, because
offset import cannot read them.

Offsets are read from the brokers as in offset show; nothing is changed. Offsets of a group with members continue to
move. Queues that could not be read are reported on stderr and in the file (errors, or a comment at the end of CSV). The
rest is written, and the exit code is 8."""


class Export(Struct, frozen=True):
    """The offsets that were read of a group. `broker_names` are the brokers of each topic's queues, by its route."""

    progress: "GroupProgress"
    cluster: str
    broker_names: Mapping[str, frozenset[str]]
    exported_at_ms: int


def command(
    ctx: typer.Context,
    group: Group,
    topic: TopicPatterns = None,
    outfile: Annotated[
        str | None,
        typer.Option("--outfile", metavar="FILE", help="Write to a new file that only you can read; - for stdout."),
    ] = None,
    force: Force = False,
    kafka: Annotated[bool, typer.Option("--kafka", help="Write Kafka's CSV: topic,partition,offset.")] = False,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx)
    display = _export_display(invocation.display, is_kafka=kafka)
    if outfile in (None, "-") and force:
        raise UsageError("--force needs --outfile FILE.")
    target = (
        None if outfile is None or outfile == "-" else new_file("--outfile", outfile, is_forced=force, may_force=True)
    )
    name, topics = invocation.full_name(group), [invocation.full_name(each) for each in topic or ()]
    export = invocation.ask(lambda client: fetch_export(client, name, topics))
    listing = to_csv_listing(export, is_kafka=kafka) if display.format == "csv" else to_listing(export)
    if target is None:
        code = _write(listing, display)
    else:
        text = io.StringIO()
        with redirect_stdout(text):
            code = _write(listing, display)
        write_file(target, text.getvalue(), is_forced=force, may_force=True)
    _say(listing, display)
    if target is not None and display.with_notes:
        to_stderr(printable(f"Written to {target}."))
    return code


def _export_display(display: Display, *, is_kafka: bool) -> Display:
    """Return how to write it. Raises UsageError for formats that offset import cannot read."""
    form = "" if display.format in TABLE_FORMATS else display.format
    if form not in ("", "json", "csv"):
        raise UsageError(
            f"-o {form} is not supported: offset import cannot read it.",
            hint="Use -o json or -o csv, or offset show for any format.",
        )
    if display.columns:
        raise UsageError("--columns is not supported: an export has all columns.", hint="Use offset show --columns.")
    if is_kafka and form == "json":
        raise UsageError("--kafka writes CSV, not JSON.", hint="Use either --kafka or -o json.")
    if form == "csv" and not is_kafka and not display.with_headers:
        raise UsageError(
            "--no-headers is not supported: offset import needs the heading to identify the columns.",
            hint="Leave out --no-headers, or use --kafka.",
        )
    form = "csv" if is_kafka else form or "json"
    return replace(display, format=form, with_headers=not is_kafka)


async def fetch_export(client: "Client", group: str, topics: Sequence[str]) -> Export:
    """Read the offsets to write. Raises what fetch_group_progress() raises."""
    from rmqctl.admin.brokers.cluster import fetch_cluster
    from rmqctl.admin.offsets.conclusion import conclude
    from rmqctl.admin.offsets.group import read_group

    reading = await read_group(client, group, topics)
    exported_at_ms = client.clock.now_ms()
    progress = conclude(group, reading)
    named = {row.mq.broker_name for row in progress.rows}
    brokers = (await fetch_cluster(client)).brokers
    clusters = {broker.cluster for broker in brokers if broker.broker_name in named or not named}
    on: dict[str, set[str]] = {}
    for topic, route in reading.routes.items():
        on.setdefault(topic, set()).update(mq.broker_name for mq in route.readable_queues())
    for row in progress.rows:
        on.setdefault(row.mq.topic, set()).add(row.mq.broker_name)
    return Export(
        progress, ",".join(sorted(clusters)), {topic: frozenset(names) for topic, names in on.items()}, exported_at_ms
    )


def to_listing(export: Export) -> Listing:
    """Make the whole document."""
    progress = export.progress
    notes = [f"Null ({why}): {_listed(queues)}." for why, queues in _missing(progress.rows).items()]
    if progress.cut:
        notes.append(f"With isReadable false: {_listed([str(each.mq) for each in progress.cut])}.")
    rows: tuple[QueueProgress | CutQueue, ...] = (*progress.rows, *progress.cut)
    items = {row.mq: _item(row) for row in rows}
    return Listing(
        kind="OffsetExport",
        columns=_COLUMNS,
        items=[item for _, item in sorted(items.items())],
        name=_queue_name,
        failures=progress.failures,
        extra={
            "group": progress.group,
            "cluster": export.cluster,
            **time_fields("exportedAtMs", export.exported_at_ms),
        },
        notes=[*_notes(progress), *notes],
        warnings=describe_all_unreadable(progress.unreadable),
    )


def to_csv_listing(export: Export, *, is_kafka: bool) -> Listing:
    """Make the rows of CSV, which has no null. Raises UsageError for names that CSV cannot represent."""
    progress = export.progress
    rows = [row for row in progress.rows if row.consumer_offset is not None]
    for name in sorted({name for row in rows for name in row.mq[:2]}):
        if printable(name) != name:
            raise UsageError(f"The name {printable(name)} cannot be written as CSV.", hint="Use -o json.")
    items = [{**_item(row), "offset": row.consumer_offset} for row in rows]
    if is_kafka:
        for item in items:
            # A broker that did not answer may have the topic as well.
            is_alone = len(export.broker_names[item["topic"]]) == 1 and not progress.failures
            item["partition"] = item["queueId"] if is_alone else f"{item['brokerName']}:{item['queueId']}"
    left_out = _missing(progress.rows)
    if progress.cut:
        left_out["no consumer can read them"] = [f"{each.mq} at {each.consumer_offset}" for each in progress.cut]
    notes = [f"Left out ({why}): {_listed(queues)}." for why, queues in left_out.items()]
    return Listing(
        kind="OffsetExport",
        columns=_KAFKA_COLUMNS if is_kafka else _CSV_COLUMNS,
        items=items,
        name=_queue_name,
        failures=progress.failures,
        notes=[*_notes(progress), *notes],
        warnings=describe_all_unreadable(progress.unreadable),
    )


def _item(row: QueueProgress | CutQueue) -> dict[str, Any]:
    item = {
        "topic": row.mq.topic,
        "brokerName": row.mq.broker_name,
        "queueId": row.mq.queue_id,
        "isReadable": isinstance(row, QueueProgress),
        "consumerOffset": row.consumer_offset,
        "minOffset": row.min_offset,
        "maxOffset": row.max_offset,
    }
    reasons = {key: str(row.reasons[key]) for key, value in item.items() if value is None}
    return {**item, "reasons": reasons}


def _queue_name(item: Item) -> str:
    return f"{item['topic']}@{item['brokerName']}:{item['queueId']}"


def _missing(rows: Sequence[QueueProgress]) -> dict[str, list[str]]:
    """Return the queues without an offset, by reason."""
    missing: dict[str, list[str]] = {}
    for row in rows:
        if row.consumer_offset is None:
            reason = row.reasons["consumerOffset"]
            why = "no offset is stored" if reason is Unknown.NEVER_COMMITTED else f"not read: {reason}"
            missing.setdefault(why, []).append(str(row.mq))
    return missing


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more


def _notes(progress: "GroupProgress") -> list[str]:
    notes = list(progress.notes)
    if not progress.rows and not progress.failures:
        notes.append(f"Group {progress.group} has no offsets and no subscription: there is nothing to export.")
    if progress.state is GroupState.ONLINE:
        notes.append(f"Group {progress.group} has members: its offsets continue to move.")
    return notes


def _write(listing: Listing, display: Display) -> int:
    """Write the document; CSV has no place for errors and lists in comments what it lacks."""
    from rmqctl.changes.offsets.files import not_read_comment, not_read_words

    code = render(listing, display)
    for failure in listing.failures if display.format == "csv" else ():
        words = not_read_words(failure.broker_name, failure.what, failure.error.sentence)
        if words is not None:
            sys.stdout.write(f"{printable(not_read_comment(words))}\n")
    return code


def _say(listing: Listing, display: Display) -> None:
    """Report what the data does not show. For CSV, render() has already reported what could not be read."""
    for failure in listing.failures if display.format == "json" else ():
        where = f"{failure.broker_name}: " if failure.broker_name else ""
        to_stderr(printable(f"rmqctl: not read: {where}{failure.what}: {failure.error.sentence}"))
    for hint in hints_of(listing.failures, display.findings.hints) if display.format == "json" else ():
        to_stderr(printable(f"        {hint}"))
    for note in listing.notes if display.with_notes else ():
        to_stderr(printable(note))


_MOST_LISTED = 5
_PLACE = (Column("TOPIC", "topic"), Column("BROKER", "brokerName"), Column("Q", "queueId", is_number=True))
_COLUMNS = (
    *_PLACE,
    Column("CONSUMER", "consumerOffset", is_number=True),
    Column("MIN", "minOffset", is_number=True),
    Column("MAX", "maxOffset", is_number=True),
)
_OFFSET = Column("OFFSET", "offset", is_number=True)
_CSV_COLUMNS = (*_PLACE, _OFFSET)
_KAFKA_COLUMNS = (Column("TOPIC", "topic"), Column("PARTITION", "partition"), _OFFSET)
