"""rmqctl message decode-id: decode a message id. Needs no cluster."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import UsageError
from rmqctl.text.times import iso_time

HELP = """\b
Examples:
  rmqctl message decode-id 7F0000010000A4B100000000000002F1
  rmqctl message decode-id 7F00000100A418B4AAC2692623890003 -o json

\b
Kinds:
  OFFSET_ID   made by the broker: its address and the commit log offset
  UNIQUE_KEY  made by the producer: address, process, time within the month,
              counter
  CLIENT_ID   made by a 5.x SDK: MAC address, process, time, counter

The first two look alike; impossible readings are left out, with the reason. A unique key records neither the month that
its time counts from nor the time zone: the newest possible time is shown, and -o json lists all candidates."""


def command(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="ID", help="A message id.", show_default=False)],
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    import time

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(_COLUMNS, invocation.display)
    return render(to_listing(text.strip(), time.time_ns() // 1_000_000), invocation.display)


def to_listing(text: str, now_ms: int) -> Listing:
    """Make the listing of the possible readings. Raises UsageError when no reading is possible."""
    items: list[dict[str, Any]] = []
    impossible: list[dict[str, str]] = []
    for kind, read in _READINGS.items():
        try:
            items.append({"msgId": text, "kind": kind, **read(text, now_ms)})
        except ValueError as error:
            impossible.append({"kind": kind, "reason": str(error)})
    if not items:
        reasons = {one["reason"] for one in impossible if " has 3" not in one["reason"]}
        sentence = "; ".join(sorted(reasons)) or f"Invalid message id {text!r}"
        raise UsageError(f"{sentence}.", hint="Use an id of 32, 34 or 56 hexadecimal digits.")
    return Listing(
        kind="MessageIdList",
        columns=_COLUMNS,
        items=items,
        name=lambda item: str(item["kind"]),
        extra={"impossible": impossible},
        # The length that rules out the other kinds needs no note.
        notes=[f"{one['kind']}: {one['reason']}." for one in impossible if " has 3" not in one["reason"]],
    )


def _offset_id(text: str, now_ms: int) -> dict[str, Any]:  # noqa: ARG001
    from rmqctl.protocol.message_id import decode_offset_id

    read = decode_offset_id(text)
    return _item(host=read.host, port=read.port, commitLogOffset=read.commit_log_offset)


def _unique_key(text: str, now_ms: int) -> dict[str, Any]:
    from rmqctl.protocol.message_id import decode_unique_key
    from rmqctl.text.times import month_times_ms

    read = decode_unique_key(text)
    # Java cuts it to 32 bits, and late in a month it needs all of them.
    since_month_ms = read.since_month_start_ms & 0xFFFFFFFF
    times = month_times_ms(since_month_ms, now_ms)
    if not times:
        days = since_month_ms / 86_400_000
        raise ValueError(f"{text} is not a unique key: its time would be {days:.0f} days after the start of a month")
    if read.pid == 0:
        raise ValueError(f"{text} is not a unique key: its process id would be 0")
    return _item(
        host=read.host,
        pid=read.pid,
        counter=read.counter,
        bornTimestamp=times[0],
        bornTimestampIso=iso_time(times[0]),
        candidatesIso=[iso_time(at_ms) for at_ms in times],
        sinceMonthStartMs=since_month_ms,
    )


def _client_id(text: str, now_ms: int) -> dict[str, Any]:  # noqa: ARG001
    from rmqctl.protocol.message_id import decode_client_id

    read = decode_client_id(text)
    return _item(
        mac=read.mac,
        pid=read.pid,
        counter=read.counter,
        bornTimestamp=read.made_at_ms,
        bornTimestampIso=iso_time(read.made_at_ms),
    )


_KEYS = (
    "host", "port", "commitLogOffset", "mac", "pid", "counter", "bornTimestamp", "bornTimestampIso", "candidatesIso",
    "sinceMonthStartMs",
)  # fmt: skip


def _item(**known: Any) -> dict[str, Any]:
    """Return an item with all keys, null for those that this kind of id does not contain."""
    item: dict[str, Any] = {key: known.get(key) for key in _KEYS}
    return {**item, "reasons": {key: "NOT_IN_THIS_KIND" for key in _KEYS if key not in known}}


def _show_time(item: Item) -> str:
    if item["bornTimestampIso"] is None:
        return "-"
    return f"{item['bornTimestampIso']}{' (?)' if item['kind'] == 'UNIQUE_KEY' else ''}"


_READINGS = {"OFFSET_ID": _offset_id, "UNIQUE_KEY": _unique_key, "CLIENT_ID": _client_id}

_COLUMNS = (
    Column("KIND", "kind"),
    Column("HOST", "host", show=lambda item: item["host"] or item["mac"] or "-"),
    Column("PORT", "port", is_number=True),
    Column("COMMIT-LOG-OFFSET", "commitLogOffset", is_number=True),
    Column("PID", "pid", is_number=True),
    Column("COUNTER", "counter", is_number=True),
    Column("MADE", "bornTimestamp", show=_show_time),
)
