"""rmqctl offset history: list the changes made from this machine."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.model.plan import Operation, operation_name
from rmqctl.text.durations import short_duration
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted, listed

if TYPE_CHECKING:
    from rmqctl.changes.journal.rows import Change

HELP = """\b
Examples:
  rmqctl offset history
  rmqctl offset history my-group --limit 5              # or a topic or broker
  rmqctl offset history --id 20261121T200840-be3ab7     # one change, queue by queue
  rmqctl offset history -o json | jq '.items[] | select(.state != "DONE")'

Lists every change that this user made from this machine, on any cluster, newest first. No cluster is contacted.
INTERRUPTED means that the process ended before the change was complete: --id shows which queues were written, and which
may have been. Revert a change with rmqctl offset undo ID."""


def command(
    ctx: typer.Context,
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Only this group, topic or broker, or the change of this id.",
            show_default=False,
        ),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Show one change, queue by queue; a unique prefix is enough."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1_000_000, help="Show at most N.")] = 50,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.plan_parts import is_id

    invocation = Invocation(ctx)
    if identity is None and group is not None and is_id(group):
        identity = group  # every change prints its id, and no group has a name of this form
    if identity is not None:
        from msgspec.structs import replace

        from rmqctl.cli.change.listings import RECEIPT_COLUMNS, receipt_listing
        from rmqctl.cli.change.receipts import describe, find_receipt

        choose_columns(RECEIPT_COLUMNS, invocation.display)
        found = find_receipt(identity)
        listing = receipt_listing(found)
        return render(replace(listing, notes=[*describe(found), *listing.notes]), invocation.display)
    from rmqctl.changes.journal.journal import Journal

    choose_columns(_COLUMNS, invocation.display)
    with Journal() as journal:
        changes = journal.history(name=None if group is None else invocation.full_name(group), limit=limit + 1)
    is_cut, changes = len(changes) > limit, changes[:limit]
    listing = Listing(
        kind="ChangeList",
        columns=_columns(
            has_several_clusters=len({change.cluster for change in changes}) > 1,
            has_brokers=any(change.subject.broker is not None for change in changes),
        ),
        items=[_item(change) for change in changes],
        name=lambda item: str(item["id"]),
        warnings=[f"Only {counted(limit, 'change', 'is')} shown, newest first. Show more with --limit {limit * 2}."]
        if is_cut
        else [],
        empty=f"{'Nothing was' if group is None else f'{group} was not'} changed from this machine.",
    )
    return render(listing, invocation.display)


def _item(change: "Change") -> dict[str, Any]:
    counts = {result.value: count for result, count in change.counts.items()}
    return {
        "id": change.receipt_id,
        "planId": change.plan_id,
        "operation": change.operation.value,
        "state": change.state.value,
        **time_fields("startedAtMs", change.started_at_ms),
        **time_fields("endedAtMs", change.ended_at_ms),
        "user": change.who.user,
        "host": change.who.host,
        "pid": change.who.pid,
        "context": change.who.context,
        "cluster": change.cluster,
        "group": change.subject.group if change.subject.kind == "group" else None,
        "broker": change.subject.broker,
        "topics": list(change.topics) if change.subject.topic is None else [change.subject.topic],
        "route": change.route.value,
        "asked": change.asked,
        "reason": change.reason,
        "confirmedCount": counts.get("CONFIRMED", 0),
        "unchangedCount": counts.get("UNCHANGED", 0),
        "unknownCount": counts.get("UNKNOWN", 0),
        "notAttemptedCount": counts.get("NOT_ATTEMPTED", 0),
    }


def _is_open(item: Item) -> bool:
    return bool(item["state"] != "DONE")


def _show_age(item: Item) -> str:
    return f"{short_duration(max(time.time_ns() // 1_000_000 - item['startedAtMs'], 0))} ago"


def _what(item: Item) -> str:
    return operation_name(Operation(item["operation"]), item["asked"])


def _count(heading: str, key: str) -> Column:
    return Column(heading, key, is_number=True, is_alarm=lambda item: bool(item[key]), gives_way=1)


def _columns(*, has_several_clusters: bool, has_brokers: bool = True) -> tuple[Column, ...]:
    return (
        Column("ID", "id", is_id=True),
        Column("WHEN", "startedAtMs", show=_show_age, gives_way=3),
        Column("STARTED", "startedAtIso", is_wide=True),
        Column("WHAT", "operation", show=_what),
        Column("CLUSTER", "cluster", is_wide=not has_several_clusters),
        Column("GROUP", "group", show=lambda item: item["group"] or "-"),
        Column("BROKER", "broker", show=lambda item: item["broker"] or "-", is_wide=not has_brokers),
        Column("TOPIC", "topics", show=lambda item: listed(item["topics"]) or "-"),
        Column("ASKED", "asked", gives_way=True),
        Column("STATE", "state", is_alarm=_is_open),
        Column("CONFIRMED", "confirmedCount", is_number=True, gives_way=2),
        _count("UNCHANGED", "unchangedCount"),
        _count("UNKNOWN", "unknownCount"),
        _count("NOT-SENT", "notAttemptedCount"),
        Column("USER", "user", gives_way=True),
        Column("HOST", "host", is_wide=True),
        Column("CONTEXT", "context", is_wide=True),
        Column("REASON", "reason", is_sentence=True),
    )


_COLUMNS = _columns(has_several_clusters=True)
