"""rmqctl dlq status: list the ledgers of replays on this machine."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import RmqctlError
from rmqctl.model.failure import Attempt, Failure
from rmqctl.model.receipt import ChangeState
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.changes.dlq.ledger_summaries import LedgerSummary

HELP = """\b
Examples:
  rmqctl dlq status
  rmqctl dlq status my-group -o json | jq '.items[].runs'

A ledger records what was replayed from a group to a target; the same replay command resumes from it. No cluster is
contacted.

\b
Columns:
  LEDGER    its id, as in the property RMQCTL_REPLAY of the messages
  NAME      its name (--ledger of dlq replay); -o wide shows its file
  SENT      messages stored on the target, over all runs
  IN-DOUBT  messages that may be stored; the next run looks for them first
  LEFT      messages that the last run was to send, but did not (yet), also
            those beyond its --max; - if it could not read all of them
  STATE     DONE         the last run read and sent all
            LEFT         the last run ended before all were sent, did not read
                         all, or was limited by --max
            RUNNING      a run is sending now
            INTERRUPTED  the last run was killed
            ELSEWHERE    the last run was on another host; its end is unknown
            NEW          no run yet

Exit codes: 0 nothing is left or in doubt, 8 otherwise; a run that is sending now does not count."""


def command(
    ctx: typer.Context,
    group: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GROUP]...", help="Show the ledgers of these groups only.", show_default=False),
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.changes.dlq.ledger_summaries import read_ledgers

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(COLUMNS, invocation.display)
    return render(to_listing(read_ledgers(tuple(group or ()))), invocation.display)


def to_listing(ledgers: "list[LedgerSummary]") -> Listing:
    """Make the listing of ledgers."""
    return Listing(
        kind="LedgerList",
        columns=COLUMNS,
        items=[_item(each) for each in ledgers],
        failures=[failure for each in ledgers for failure in _failures(each)],
        name=lambda item: str(item["id"]),
        empty="No dead letters were replayed from this machine.",
    )


def _item(ledger: "LedgerSummary") -> dict[str, Any]:
    last = ledger.runs[-1] if ledger.runs else None
    left = None if last is None or last.unread else last.left_count + last.beyond_count
    reasons = {} if ledger.target.topic is not None else {"targetTopic": "ORIGIN"}
    if last is None:
        reasons["leftCount"] = "NEW"
        state = "NEW"
    else:
        if last.unread:
            reasons["leftCount"] = "NOT_READ"
        state = "LEFT" if left != 0 and last.state is ChangeState.DONE else str(last.state)
    return {
        "id": ledger.id,
        "name": ledger.name,
        "file": str(ledger.path),
        "group": ledger.group,
        "cluster": ledger.cluster,
        "target": ledger.target.kind,
        "targetTopic": ledger.target.topic,
        **time_fields("createdTimestamp", ledger.created_at_ms),
        "sentCount": ledger.sent_count,
        "droppedCount": ledger.dropped_count,
        "inDoubtCount": ledger.in_doubt_count,
        "leftCount": left,
        "state": state,
        "runs": [
            {
                **time_fields("startedTimestamp", run.started_at_ms),
                **time_fields("endedTimestamp", run.ended_at_ms),
                "state": run.state,
                "reason": run.reason,
                "user": run.user,
                "host": run.host,
                "pid": run.pid,
                "plannedCount": run.planned_count,
                "sentCount": run.sent_count,
                "droppedCount": run.dropped_count,
                "beyondCount": run.beyond_count,
                "unread": list(run.unread),
            }
            for run in ledger.runs
        ],
        "reasons": reasons,
    }


def _failures(ledger: "LedgerSummary") -> Iterator[Failure]:
    last = ledger.runs[-1] if ledger.runs else None
    if last is not None and last.state is ChangeState.RUNNING:
        return
    unread, left_count, beyond_count = ((), 0, 0) if last is None else (last.unread, last.left_count, last.beyond_count)
    for name in unread:
        error = RmqctlError("The last run could not read all of them, so it is unknown how many are left.")
        yield Failure(name, f"dead letters of ledger {ledger.id}", error)
    for count, sentence, attempt in (
        (ledger.in_doubt_count, "They may be stored: the next run looks for them first.", Attempt.UNANSWERED_WRITE),
        (left_count - ledger.in_doubt_count, "The last run did not send them.", Attempt.WRITE),
        (beyond_count, "They are beyond --max of the last run.", Attempt.WRITE),
    ):
        if count > 0:
            what = f"{counted(count, 'dead letter')} of ledger {ledger.id}"
            yield Failure(None, what, RmqctlError(sentence), attempt)


def _show_last(item: Item) -> str:
    return item["runs"][-1]["startedTimestampIso"] if item["runs"] else "-"


COLUMNS = (
    Column("LEDGER", "id", is_id=True),
    Column("NAME", "name", show=lambda item: item["name"] or "-"),
    Column("GROUP", "group"),
    Column("TO", "targetTopic", show=lambda item: item["targetTopic"] or "(origin)"),
    Column("SENT", "sentCount", is_number=True),
    Column("DROPPED", "droppedCount", is_number=True, is_wide=True),
    Column("IN-DOUBT", "inDoubtCount", is_number=True, is_alarm=lambda item: item["inDoubtCount"] != 0),
    Column("LEFT", "leftCount", is_number=True),
    Column("STATE", "state"),
    Column("LAST-RUN", "runs", show=_show_last, gives_way=True),
    Column("CLUSTER", "cluster", is_wide=True),
    Column("FILE", "file", is_wide=True),
)
