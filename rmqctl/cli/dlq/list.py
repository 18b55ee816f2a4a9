"""rmqctl dlq list: the groups that have dead letters."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.arguments import AnyGroups, duration_option_ms
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.totals import show_total, total_items, total_reasons
from rmqctl.rules.topics import permission_words
from rmqctl.rules.totals import total
from rmqctl.text.times import iso_time, time_fields
from rmqctl.text.words import agreeing, counted, listed

if TYPE_CHECKING:
    from rmqctl.admin.groups.letter_list import GroupLetters, HeldLetters, LetterList

HELP = """\b
Examples:
  rmqctl dlq list
  rmqctl dlq list 'payments-*' --new 24h
  rmqctl dlq list --where 'newCount>0' --sort -newCount
  rmqctl dlq list my-group -o json | jq '.items[].brokers'

\b
Columns:
  COUNT       dead letters that the brokers still have
  NEW         of these, stored in the last hour (see --new)
  OLDEST      store time of the oldest one
  NEWEST      store time of the newest one
  KEPT-UNTIL  the oldest one is kept at least until then: fileReservedTime of
              its broker; a full disk deletes it earlier

A group that is named without wildcards is shown even if it has no dead letters. If a broker does not answer, counts are
lower bounds (>=) and the exit code is 8."""


def command(
    ctx: typer.Context,
    patterns: AnyGroups = None,
    new: Annotated[
        str, typer.Option("--new", metavar="DURATION", help="Count dead letters up to this age as new.")
    ] = "1h",
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    import time

    from rmqctl.admin.groups.letter_list import fetch_letter_list

    invocation = Invocation(ctx)
    choose_columns(COLUMNS, invocation.display)
    new_ms = duration_option_ms("--new", new)
    since_ms = time.time_ns() // 1_000_000 - new_ms
    names, among = [invocation.full_name(each) for each in patterns or ()], invocation.full_name("*")
    found = invocation.ask(lambda client: fetch_letter_list(client, names, since_ms=since_ms, among=among))
    return render(to_listing(found, new_ms), invocation.display)


def to_listing(found: "LetterList", new_ms: int) -> Listing:
    """Make the listing of all groups."""
    return Listing(
        kind="DeadLetterGroupList",
        columns=COLUMNS,
        items=[_item(group) for group in found.groups],
        name=lambda item: str(item["group"]),
        failures=found.failures,
        extra={"newWithinMs": new_ms},
        notes=list(_notes(found)),
        empty="No group has dead letters.",
    )


def _notes(found: "LetterList") -> Iterator[str]:
    closed = [group.group for group in found.groups if any(_is_closed(each) for each in group.held)]
    if closed:
        yield (
            f"The dead-letter topic is write-only ({listed(closed)}): brokers before 4.9.2 create it so. "
            "To make it readable: rmqctl dlq show GROUP --fix-permission"
        )
    if found.empty_count:
        topics = counted(found.empty_count, "dead-letter topic")
        yield f"{topics} without dead letters {agreeing(found.empty_count, 'is')} not shown."


def _is_closed(held: "HeldLetters") -> bool:
    return held.config is not None and not held.config.is_readable


def _item(group: "GroupLetters") -> dict[str, Any]:
    held = group.held
    totals = {
        "count": total((each.count, _unknown(each)) for each in held),
        "newCount": total((each.new_count, _unknown(each)) for each in held),
    }
    reasons = total_reasons(totals)
    filled = [each for each in held if each.count]
    times = {
        "earliestTimestamp": min((each.oldest_at_ms for each in filled if each.oldest_at_ms is not None), default=None),
        "lastTimestamp": max((each.newest_at_ms for each in filled if each.newest_at_ms is not None), default=None),
        "keptUntilTimestamp": min(
            (each.kept_until_ms for each in filled if each.kept_until_ms is not None), default=None
        ),
    }
    for key, value in times.items():
        if value is None:
            reasons[key] = "NOT_REPORTED" if filled else reasons.get("count", "NO_MESSAGES")
    is_readable: bool | None = not any(map(_is_closed, held))
    if any(each.config is None for each in held):
        is_readable, reasons["isReadable"] = None, reasons["count"]
    return {
        "group": group.group,
        **total_items(totals),
        **{name: at for key, value in times.items() for name, at in ((key, value), (f"{key}Iso", iso_time(value)))},
        "isReadable": is_readable,
        "brokers": [_broker(each) for each in held],
        "reasons": reasons,
    }


def _unknown(held: "HeldLetters") -> str:
    return "NOT_READABLE" if held.error is None else held.error.name


def _broker(held: "HeldLetters") -> dict[str, Any]:
    item: dict[str, Any] = {
        "brokerName": held.broker_name,
        "perm": None if held.config is None else held.config.perm,
        "permission": None if held.config is None else permission_words(held.config.perm),
        "count": held.count,
        "newCount": held.new_count,
        **time_fields("earliestTimestamp", held.oldest_at_ms),
        **time_fields("lastTimestamp", held.newest_at_ms),
        "retentionMs": held.retention_ms,
    }
    absent = "NO_MESSAGES" if held.count == 0 else "NOT_REPORTED" if held.error is None else held.error.name
    reasons = {key: absent for key, value in item.items() if value is None and not key.endswith("Iso")}
    if held.new_count is None:
        reasons["newCount"] = _unknown(held)
    return {**item, "reasons": reasons}


COLUMNS = (
    Column("GROUP", "group"),
    Column("COUNT", "count", show=show_total("count"), is_number=True),
    Column("NEW", "newCount", show=show_total("newCount"), is_number=True, is_alarm=lambda item: item["newCount"] != 0),
    Column("OLDEST", "earliestTimestamp", is_time=True, gives_way=True),
    Column("NEWEST", "lastTimestamp", is_time=True),
    Column("KEPT-UNTIL", "keptUntilTimestamp", is_time=True),
    Column("BROKERS", "brokers", show=lambda item: str(len(item["brokers"])), is_number=True, is_wide=True),
)
