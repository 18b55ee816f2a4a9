"""rmqctl offset show: show a group's progress, queue by queue."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.arguments import Groups, TopicPatterns
from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns
from rmqctl.cli.output.totals import total_items, total_reasons, total_words
from rmqctl.cli.output.unreadable import unreadable_items
from rmqctl.cli.repeat import Repetition
from rmqctl.model.failure import Failure
from rmqctl.model.group import GroupState
from rmqctl.model.progress import QueueProgress, Unknown
from rmqctl.rules.lite_topics import describe_lite
from rmqctl.rules.readable_queues import describe_all_unreadable, unreadable_words
from rmqctl.rules.totals import Total, total
from rmqctl.text.durations import short_duration
from rmqctl.text.numbers import rate_words
from rmqctl.text.times import time_fields
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.admin.offsets.reading import GroupProgress

HELP = """\b
Examples:
  rmqctl offset show my-group                     # all topics of the group
  rmqctl offset show my-group --topic orders      # one topic
  rmqctl offset show my-group --watch --every 2s
  rmqctl offset show 'pay-*' --only-with-lag      # every matching group, queues with lag
  rmqctl offset show my-group -o wide             # every column
  rmqctl offset show my-group --sort -lag         # the largest lag first
  rmqctl offset show my-group -o json | jq '[.items[] | select(.lag > 1000)]'

\b
Columns:
  MIN             smallest offset that is still stored
  MAX             offset of the next message
  CONSUMER        the group's committed offset on the broker
  PULL            offset after the last pull
  LAG             messages not yet consumed, before the group's filter
  IN-FLIGHT       messages pulled but not committed
  DUP-RISK        messages consumed but not committed, at most: a crash would
                  redeliver them
  LAST            store time of the last consumed message
  TIME-LAG        age of the first unread message, by its broker's clock
  RETENTION-LEFT  time until the first unread message may be deleted, at least
  OWNER           client that reports holding the queue

A dash means unknown, never 0; -o json shows the reason."""


def command(
    ctx: typer.Context,
    groups: Groups,
    topic: TopicPatterns = None,
    only_with_lag: Annotated[
        bool, typer.Option("--only-with-lag", help="Show only queues with lag, or with unknown lag.")
    ] = False,
    *,
    repetition: Repetition,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.offsets.group import fetch_matching_progress

    invocation = Invocation(ctx)
    choose_columns(_columns(is_many=True), invocation.display)
    topics = tuple(invocation.full_name(name) for name in topic or ())
    names = [invocation.full_name(group) for group in groups]

    def read() -> Listing:
        found, failures = invocation.ask(lambda client: fetch_matching_progress(client, names, topics))
        return to_listing(found, failures, only_with_lag=only_with_lag)

    return repetition.show(invocation, read)


def to_listing(
    found: "list[GroupProgress]", failures: Sequence[Failure] = (), *, only_with_lag: bool = False
) -> Listing:
    """Make the listing of one or more groups' progress."""
    from rmqctl.admin.results import merge_failures

    # Groups that were not read are named in the failures: the totals of the only other one are not those of all.
    unread_count = sum(each.is_of_group for each in failures)
    is_many = len(found) + unread_count > 1
    items = [_item(progress.group, row) for progress in found for row in progress.rows]
    failed = merge_failures({progress.group: progress.failures for progress in found})
    groups = [progress.group for progress in found]
    return Listing(
        kind="OffsetList",
        columns=_columns(is_many=is_many),
        items=[item for item in items if item["lag"] != 0] if only_with_lag else items,
        name=lambda item: f"{item['group']} {_queue_name(item)}" if is_many else _queue_name(item),
        failures=[*failures, *failed],
        extra={
            "group": groups[0] if groups and not is_many else None,
            "unreadableQueues": [
                {"group": progress.group, **item}
                for progress in found
                for item in unreadable_items(progress.unreadable)
            ],
            "summary": summarise(found[0]) if found and not is_many else None,
            "summaries": [{"group": progress.group, **summarise(progress)} for progress in found],
        },
        notes=[note for progress in found for note in _notes(progress)],
        warnings=[
            f"Group {progress.group}: {sentence}" if is_many else sentence
            for progress in found
            for sentence in describe_all_unreadable(progress.unreadable)
        ],
        empty="No queue is behind."
        if only_with_lag and items
        else _no_offsets(groups, is_whole=not (failures or failed)),
    )


def _queue_name(item: Item) -> str:
    return f"{item['topic']}@{item['brokerName']}:{item['queueId']}"


def _no_offsets(groups: list[str], *, is_whole: bool) -> str:
    if len(groups) == 1:
        return f"Group {groups[0]} has no offsets and no subscription{': it has never consumed' if is_whole else ''}."
    return f"None of these groups has offsets or a subscription{': they have never consumed' if is_whole else ''}."


def _item(group: str, row: QueueProgress) -> dict[str, Any]:
    return {
        "group": group,
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
        **time_fields("lastTimestamp", row.last_timestamp_ms),
        "timeLagMs": row.time_lag_ms,
        "timeLagSource": row.time_lag_source,
        "retentionLeftMs": row.retention_left_ms,
        "clientId": row.client_ids[0] if len(row.client_ids) == 1 else None,
        "clientIds": list(row.client_ids),
        "reasons": {name: str(reason) for name, reason in row.reasons.items()},
    }


def summarise(progress: "GroupProgress") -> dict[str, Any]:
    """Sum up a group's rows."""
    totals = sum_rows(progress.rows, ("lag", "lost", "inflight"), hidden=progress.hidden_anywhere)
    summary = {
        "state": progress.state,
        "memberCount": progress.member_count,
        "consumeType": progress.consume_type,
        "messageModel": progress.message_model,
        "consumeTps": None if progress.consume_tps is None else round(progress.consume_tps, 2),
        **total_items(totals),
        "unreadableMessageCount": sum(progress.unreadable.values()),
    }
    unseen = progress.unseen_reason or Unknown.NO_MEMBERS
    if progress.state is GroupState.ONLINE:
        unseen = Unknown.BROKERS_DIFFER
    reasons = {key: str(unseen) for key in ("memberCount", "consumeType", "messageModel") if summary[key] is None}
    if progress.consume_tps is None:
        reasons["consumeTps"] = str(Unknown.BROKER_UNREACHABLE)
    return {**summary, "reasons": reasons | total_reasons(totals)}


_ATTRIBUTES = {"duplicateRisk": "duplicate_risk"}


def sum_rows(rows: Sequence[QueueProgress], keys: Sequence[str], *, hidden: Unknown | None) -> dict[str, Total]:
    """Sum up what rows have under these keys; `hidden` is why there may be queues without a row."""
    return {
        key: total(
            ((getattr(row, _ATTRIBUTES.get(key, key)), str(row.reasons.get(key))) for row in rows),
            hidden=hidden,
            nothing=Unknown.NEVER_COMMITTED,
        )
        for key in keys
    }


def show_tps(rate: float | None) -> str:
    """Return a group's rate in words."""
    return "rate unknown" if rate is None else f"consuming {rate_words(rate)} msg/s (1-minute average)"


def _notes(progress: "GroupProgress") -> list[str]:
    summary = summarise(progress)
    lag = total_words(summary, "lag") + unreadable_words(progress.unreadable)
    if progress.asked_topics:
        # The brokers' rate is that of the whole group.
        what = f"Group {progress.group} in {', '.join(progress.asked_topics)}"
        notes = [f"{what}: {_members(progress)}, lag {lag}."]
    else:
        notes = [f"Group {progress.group}: {_members(progress)}, lag {lag}, {show_tps(summary['consumeTps'])}."]
    lost = sum(row.lost or 0 for row in progress.rows)
    if lost:
        notes.append(f"{counted(lost, 'message', 'was')} deleted before this group read them.")
    unknown = Counter(str(row.reasons["lag"]) for row in progress.rows if row.lag is None)
    notes += [f"Lag is unknown on {_queues(count)}: {reason}." for reason, count in sorted(unknown.items())]
    return [*notes, *describe_lite(row.mq.topic for row in progress.rows), *progress.notes]


def _members(progress: "GroupProgress") -> str:
    if progress.state is GroupState.UNKNOWN:
        return "members unknown"
    if progress.state is GroupState.EMPTY:
        return "no members that brokers can see"
    return counted(progress.member_count or 0, "member")


def _queues(count: int) -> str:
    return counted(count, "queue")


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


def _columns(*, is_many: bool) -> tuple[Column, ...]:
    """Return the columns; the name of a single group is only shown with -o wide."""
    return (Column("GROUP", "group", is_wide=not is_many), *_COLUMNS)


_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
    Column("MIN", "minOffset", is_number=True, is_wide=True),
    Column("MAX", "maxOffset", is_number=True, gives_way=1),
    Column("CONSUMER", "consumerOffset", is_number=True),
    Column("PULL", "pullOffset", is_number=True, is_wide=True),
    Column("LAG", "lag", is_number=True, is_alarm=_is_behind),
    Column("LOST", "lost", is_number=True, is_wide=True, is_alarm=lambda item: bool(item["lost"])),
    Column("IN-FLIGHT", "inflight", is_number=True, gives_way=2),
    Column("DUP-RISK", "duplicateRisk", is_number=True, is_alarm=lambda item: bool(item["duplicateRisk"])),
    Column("RISK-BY", "duplicateRiskSource", is_wide=True),
    Column("LAST", "lastTimestamp", is_time=True, is_wide=True),
    Column("TIME-LAG", "timeLagMs", show=_show_duration("timeLagMs"), is_number=True),
    Column("MEASURED-BY", "timeLagSource", is_wide=True),
    Column("RETENTION-LEFT", "retentionLeftMs", show=_show_kept, is_number=True, is_alarm=_is_soon_gone, gives_way=1),
    Column("OWNER", "clientIds", show=_show_owner, is_kept=True),
)
