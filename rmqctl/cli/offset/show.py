"""rmqctl offset show: a group's progress, queue by queue."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.cli.output.text import iso_time
from rmqctl.model.group import GroupState
from rmqctl.model.progress import QueueProgress
from rmqctl.rules.durations import short_duration

if TYPE_CHECKING:
    from rmqctl.admin.offset_reading import GroupProgress

HELP = """\b
Examples:
  rmqctl offset show my-group                     all topics of the group
  rmqctl offset show my-group --topic orders      one topic
  rmqctl offset show my-group -o wide             every column
  rmqctl offset show my-group -o json | jq '[.items[] | select(.lag > 1000)]'

\b
Columns:
  MIN, MAX      smallest offset that is left, next one to be written
  CONSUMER      the group's offset on the broker; PULL: after the last pull
  LAG           messages still to be consumed
  IN-FLIGHT     pulled, not yet committed
  DUP-RISK      consumed but not committed, at most: a crash delivers these again
  LAST          store time of the last consumed message
  TIME-LAG      age of the first unread message, by its broker's clock
  KEPT          time until the first unread message may be deleted, at the earliest
  OWNER         the client that says it holds the queue

A dash is unknown, never 0; -o json names the reason of each."""


def command(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.", show_default=False)],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic. May be repeated.")
    ] = None,
) -> int:
    """Run the command; its help is the registry's line and HELP."""
    from rmqctl.admin.offsets import fetch_group_progress

    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)
    progress = invocation.ask(lambda client: fetch_group_progress(client, group, tuple(topic or ())))
    return render(to_listing(progress), invocation.display)


def to_listing(progress: "GroupProgress") -> Listing:
    """Make the listing of a group's progress."""
    return Listing(
        kind="OffsetList",
        columns=_COLUMNS,
        items=[_item(row) for row in progress.rows],
        name=lambda item: f"{item['topic']}@{item['brokerName']}:{item['queueId']}",
        failures=progress.failures,
        extra={"group": progress.group, "summary": _summary(progress)},
        notes=_notes(progress),
        empty=f"Group {progress.group} has no offsets and no subscription: it has never consumed.",
    )


def _item(row: QueueProgress) -> dict[str, Any]:
    return {
        "topic": row.mq.topic,
        "brokerName": row.mq.broker_name,
        "queueId": row.mq.queue_id,
        "minOffset": row.min_offset,
        "maxOffset": row.max_offset,
        "consumerOffset": row.consumer_offset,
        "pullOffset": row.pull_offset,
        "lag": row.lag,
        "lost": row.lost,
        "inflight": row.inflight,
        "duplicateRisk": row.duplicate_risk,
        "duplicateRiskSource": row.duplicate_risk_source,
        "lastTimestamp": row.last_timestamp_ms,
        "lastTimestampIso": iso_time(row.last_timestamp_ms),
        "timeLagMs": row.time_lag_ms,
        "timeLagSource": row.time_lag_source,
        "retentionLeftMs": row.retention_left_ms,
        "clientId": row.client_ids[0] if len(row.client_ids) == 1 else None,
        "clientIds": list(row.client_ids),
        "reasons": {name: str(reason) for name, reason in row.reasons.items()},
    }


def _summary(progress: "GroupProgress") -> dict[str, Any]:
    """Sum up; a sum with an unknown part is unknown, and `lagAtLeast` says what is known of it."""
    return {
        "state": progress.state,
        "memberCount": progress.member_count,
        "consumeType": progress.consume_type,
        "messageModel": progress.message_model,
        "consumeTps": round(progress.consume_tps, 2),
        "lag": _sum(row.lag for row in progress.rows),
        "lagAtLeast": sum(row.lag or 0 for row in progress.rows),
        "lost": _sum(row.lost for row in progress.rows),
        "inflight": _sum(row.inflight for row in progress.rows),
    }


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def _notes(progress: "GroupProgress") -> list[str]:
    summary = _summary(progress)
    lag = summary["lag"] if summary["lag"] is not None else f"at least {summary['lagAtLeast']}"
    if progress.asked_topics:
        # The brokers' rate is that of the whole group.
        what = f"Group {progress.group} in {', '.join(progress.asked_topics)}"
        notes = [f"{what}: {_members(progress)}, lag {lag}."]
    else:
        notes = [f"Group {progress.group}: {_members(progress)}, lag {lag}, {summary['consumeTps']:g} msg/s."]
    lost = sum(row.lost or 0 for row in progress.rows)
    if lost:
        notes.append(f"{lost} messages were deleted before this group read them.")
    unknown = Counter(str(row.reasons["lag"]) for row in progress.rows if row.lag is None)
    notes += [f"Lag is unknown on {_queues(count)}: {reason}." for reason, count in sorted(unknown.items())]
    return [*notes, *progress.notes]


def _members(progress: "GroupProgress") -> str:
    if progress.state is GroupState.UNKNOWN:
        return "members unknown"
    if progress.state is GroupState.EMPTY:
        return "no members that brokers can see"
    return f"{progress.member_count} member{'s' if progress.member_count != 1 else ''}"


def _queues(count: int) -> str:
    return f"{count} queue{'s' if count != 1 else ''}"


def _show_duration(key: str) -> Any:
    def show(item: Item) -> str:
        return "-" if item[key] is None else short_duration(item[key])

    return show


def _show_kept(item: Item) -> str:
    left_ms = item["retentionLeftMs"]
    if left_ms is None:
        return "-"
    return short_duration(left_ms) if left_ms > 0 else "due"


def _show_owner(item: Item) -> str:
    return ",".join(item["clientIds"]) or "-"


def _is_behind(item: Item) -> bool:
    return bool(item["lag"])


def _is_soon_gone(item: Item) -> bool:
    left_ms = item["retentionLeftMs"]
    return left_ms is not None and left_ms < 6 * 3_600_000


_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
    Column("MIN", "minOffset", is_number=True, is_wide=True),
    Column("MAX", "maxOffset", is_number=True),
    Column("CONSUMER", "consumerOffset", is_number=True),
    Column("PULL", "pullOffset", is_number=True, is_wide=True),
    Column("LAG", "lag", is_number=True, is_alarm=_is_behind),
    Column("LOST", "lost", is_number=True, is_wide=True, is_alarm=lambda item: bool(item["lost"])),
    Column("IN-FLIGHT", "inflight", is_number=True),
    Column("DUP-RISK", "duplicateRisk", is_number=True, is_alarm=lambda item: bool(item["duplicateRisk"])),
    Column("RISK-BY", "duplicateRiskSource", is_wide=True),
    Column("LAST", "lastTimestamp", show=lambda item: item["lastTimestampIso"] or "-", is_wide=True),
    Column("TIME-LAG", "timeLagMs", show=_show_duration("timeLagMs"), is_number=True),
    Column("MEASURED-BY", "timeLagSource", is_wide=True),
    Column("KEPT", "retentionLeftMs", show=_show_kept, is_number=True, is_alarm=_is_soon_gone, gives_way=True),
    Column("OWNER", "clientIds", show=_show_owner, gives_way=True),
)
