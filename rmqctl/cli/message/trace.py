"""rmqctl message trace: show the trace records that clients wrote about a message."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.errors import UsageError
from rmqctl.model.trace import TraceEvent, TraceStep
from rmqctl.text.times import time_fields

if TYPE_CHECKING:
    from rmqctl.admin.messages.trace import Trace

HELP = """\b
Examples:
  rmqctl message trace 7F00000100A418B4AAC2692623890003
  rmqctl message trace --key o-1017                  # all messages with a key
  rmqctl message trace 7F00... --trace-topic orders-trace
  rmqctl message trace 7F00... -o json | jq '.items[] | .result'

\b
Events:
  PUBLISHED          sent, and stored by STORE-HOST (-o wide)
  TRANSACTION_ENDED  the half message was committed or rolled back
  DELIVERED          delivered to a listener of GROUP, after RETRY retries
  RECALLED           the delayed message was recalled

Only clients created with enableMsgTrace=true write traces, with the times of their own clocks and some seconds late. A
trace has only the records that they wrote. A delivery without a result is still running, or the record of its end is
lost or has not arrived yet. If a broker has deleted records since the message was sent, the trace may be incomplete;
the exit code is then 8."""


def command(
    ctx: typer.Context,
    msg_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="A message id.", show_default=False)] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="A business key instead of an id.")] = None,
    trace_topic: Annotated[
        str, typer.Option("--trace-topic", metavar="TOPIC", help="The topic that clients write traces to.")
    ] = "RMQ_SYS_TRACE_TOPIC",
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.messages.lookup import decode_id
    from rmqctl.admin.messages.trace import fetch_trace

    if (msg_id is None) == (key is None):
        raise UsageError("Name a message by its ID or by --key.", hint="See rmqctl message trace --help.")
    if msg_id is not None:
        decode_id(msg_id, hint="Use --key KEY to search by business key.")
    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)
    trace = invocation.ask(lambda client: fetch_trace(client, trace_topic, msg_id=msg_id, key=key))
    return render(to_listing(trace, trace_topic), invocation.display)


def to_listing(trace: "Trace", trace_topic: str) -> Listing:
    """Make the listing of all events."""
    items = [_item(step) for step in trace.steps]
    return Listing(
        kind="MessageTrace",
        columns=_COLUMNS,
        items=items,
        name=lambda item: f"{item['event']}@{item['group']}",
        failures=trace.failures,
        extra={"traceTopic": trace_topic, "unreadableCount": trace.unreadable_count},
        notes=_notes(trace),
        warnings=_warnings(trace),
        empty=f"No trace records found in {trace_topic}.",
    )


def _notes(trace: "Trace") -> list[str]:
    notes = []
    # Records that were not read may have the event.
    is_whole = not (trace.failures or trace.crowded or trace.is_cut or trace.unreadable_count)
    if not any(step.event is TraceEvent.PUBLISHED for step in trace.steps):
        why = (
            ": the producer writes no traces, or its record was deleted or has not arrived yet"
            if is_whole
            else " in the records that were read"
        )
        notes.append(f"No record of its sending{why}.")
    if not any(step.event is TraceEvent.DELIVERED for step in trace.steps):
        why = (
            ": it was not delivered yet, or its consumers write no traces"
            if is_whole
            else " in the records that were read"
        )
        notes.append(f"No record of a delivery{why}.")
    open_count = sum(step.event is TraceEvent.DELIVERED and step.result is None for step in trace.steps)
    if open_count:
        notes.append(
            f"Deliveries without a result: {open_count}. "
            "They are still running, or the record of their end is lost or has not arrived yet."
        )
    return notes


def _warnings(trace: "Trace") -> list[str]:
    warnings = []
    if trace.is_cut and not trace.crowded:
        warnings.append("Only the newest records were read. There may be older events.")
    if trace.crowded:
        crowded = ", ".join(trace.crowded)
        warnings.append(f"The index of {crowded} returned only a part of its records. There may be more events.")
    return warnings


def _item(step: TraceStep) -> dict[str, Any]:
    reported = {
        **time_fields("timestamp", step.at_ms),
        "group": step.group,
        "topic": step.topic,
        "keys": step.keys,
        "tags": step.tags,
        "costTime": step.cost_ms,
        "result": step.result,
        "retryTimes": step.retry_times,
        "requestId": step.request_id,
        "storeHost": step.store_host,
        "offsetMsgId": step.offset_msg_id,
        "msgType": step.message_type,
        "transactionId": step.transaction_id,
    }
    reasons = {key: "NOT_TOLD" for key, value in reported.items() if value is None}
    if step.event is TraceEvent.DELIVERED and step.result is None:
        reasons |= dict.fromkeys(("result", "costTime"), "RUNNING_OR_LOST")
    return {"event": step.event, "msgId": step.msg_id, "clientHost": step.client_host, **reported, "reasons": reasons}


def _show_result(item: Item) -> str:
    if item["result"] is None and item["reasons"].get("result") == "RUNNING_OR_LOST":
        return "(running or lost)"
    return item["result"] or "-"


_COLUMNS = (
    Column("TIME", "timestamp", is_time=True),
    Column("EVENT", "event"),
    Column("GROUP", "group"),
    Column("CLIENT", "clientHost", is_kept=True),
    Column("RETRY", "retryTimes", is_number=True),
    Column("COST-MS", "costTime", is_number=True),
    Column(
        "RESULT", "result", show=_show_result, is_alarm=lambda item: item["result"] not in (None, "SUCCESS", "COMMIT")
    ),
    Column("TOPIC", "topic", is_wide=True),
    Column("TAGS", "tags", is_wide=True),
    Column("KEYS", "keys", is_wide=True),
    Column("STORE-HOST", "storeHost", is_wide=True),
    Column("MSG-ID", "msgId", is_wide=True),
    Column("OFFSET-MSG-ID", "offsetMsgId", is_wide=True),
    Column("REQUEST-ID", "requestId", is_wide=True),
)
