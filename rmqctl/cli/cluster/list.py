"""rmqctl cluster list: clusters, brokers, replicas, and their state."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from typing import TYPE_CHECKING, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Item, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.model.failure import Failure
from rmqctl.model.route import MASTER_ID
from rmqctl.text.numbers import rate_cell
from rmqctl.text.times import iso_time

if TYPE_CHECKING:
    from rmqctl.admin.brokers.status import ReplicaStatus
    from rmqctl.client.core import Client

HELP = """\b
Examples:
  rmqctl cluster list
  rmqctl cluster list -o wide
  rmqctl cluster list -o json | jq '.items[] | select(.commitLogDiskRatio > 0.8)'

In wide tables, SENDS-WAIT and PULLS-WAIT show the number of requests that wait for a thread, and how long the first
one has waited. TIMER shows the messages on the timer wheel, and its delay.

A broker that does not answer keeps its row, with the error. So does a missing broker, and a missing master whose slaves
are registered."""


def command(ctx: typer.Context) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)
    statuses, failures = invocation.ask(_fetch)
    invocation.remember("brokers", (status.broker.broker_name for status in statuses))
    return render(to_listing(statuses, failures), invocation.display)


async def _fetch(client: "Client") -> tuple[list["ReplicaStatus"], list[Failure]]:
    from rmqctl.admin.brokers.cluster import fetch_whole_cluster
    from rmqctl.admin.brokers.status import fetch_broker_statuses
    from rmqctl.admin.results import none_answered

    statuses, failures = await fetch_broker_statuses(client, await fetch_whole_cluster(client))
    if all(status.error is not None for status in statuses):
        raise none_answered((failure.broker_name or "", failure.error) for failure in failures)
    return statuses, failures


def to_listing(statuses: list["ReplicaStatus"], failures: list[Failure]) -> Listing:
    """Return the listing of all replicas."""
    return Listing(
        kind="BrokerList",
        columns=_COLUMNS,
        items=[_item(status) for status in statuses],
        name=lambda item: str(item["brokerName"]),
        failures=failures,
    )


def _item(status: "ReplicaStatus") -> dict[str, Any]:
    runtime = status.runtime
    send, pull = runtime.pool("send"), runtime.pool("pull")
    measured = {
        "version": status.version,
        "inTps": runtime.put_tps.last_10s,
        "outTps": runtime.get_tps.last_10s,
        "putTodayCount": runtime.put_today_count,
        "getTodayCount": runtime.get_today_count,
        "commitLogDiskRatio": runtime.commit_log_disk_ratio,
        "earliestMessageTimeStamp": runtime.earliest_message_at_ms,
        "bootTimestamp": runtime.boot_at_ms,
        "brokerActive": runtime.is_active,
        # Only wide tables have columns for the rest.
        "putYesterdayCount": runtime.put_yesterday_count,
        "getYesterdayCount": runtime.get_yesterday_count,
        "sendThreadPoolQueueSize": send.queue_size,
        "sendThreadPoolQueueHeadWaitTimeMills": send.head_wait_ms,
        "pullThreadPoolQueueSize": pull.queue_size,
        "pullThreadPoolQueueHeadWaitTimeMills": pull.head_wait_ms,
        "pageCacheLockTimeMills": runtime.page_cache_lock_ms,
        "dispatchBehindBytes": runtime.dispatch_behind_bytes,
        "timerReadBehind": runtime.timer_read_behind_s,
        "timerOffsetBehind": runtime.timer_offset_behind,
        "timerCongestNum": runtime.timer_congest_count,
    }
    return {
        "clusterName": status.broker.cluster,
        "brokerName": status.broker.broker_name,
        "brokerId": status.broker_id,
        "role": "master" if status.broker_id == MASTER_ID else "slave",
        "brokerAddr": status.address,
        **measured,
        "earliestMessageTimeStampIso": iso_time(runtime.earliest_message_at_ms),
        "bootTimestampIso": iso_time(runtime.boot_at_ms),
        "error": status.error,
        "reasons": {name: status.error or "NOT_REPORTED" for name, value in measured.items() if value is None},
    }


_YES_NO = {True: "yes", False: "no", None: "-"}


def _show_pool(prefix: str) -> Any:
    def show(item: Item) -> str:
        size, wait_ms = item[f"{prefix}Size"], item[f"{prefix}HeadWaitTimeMills"]
        return "-" if size is None else f"{size} {'-' if wait_ms is None else wait_ms}ms"

    return show


def _show_timer(item: Item) -> str:
    if item["timerCongestNum"] is None:
        return "-"
    late_s = item["timerReadBehind"]
    return f"{item['timerCongestNum']} {'-' if late_s is None else f'{late_s}s'}"


def _show_disk(item: Item) -> str:
    return "-" if item["commitLogDiskRatio"] is None else f"{item['commitLogDiskRatio']:.0%}"


_COLUMNS = (
    Column("CLUSTER", "clusterName"),
    Column("BROKER", "brokerName"),
    Column("ID", "brokerId", is_number=True),
    Column("ROLE", "role", gives_way=True),
    Column("ADDRESS", "brokerAddr"),
    Column("VERSION", "version"),
    Column("IN/S", "inTps", show=lambda item: rate_cell(item["inTps"]), is_number=True),
    Column("OUT/S", "outTps", show=lambda item: rate_cell(item["outTps"]), is_number=True),
    Column(
        "DISK",
        "commitLogDiskRatio",
        show=_show_disk,
        is_number=True,
        is_alarm=lambda item: (item["commitLogDiskRatio"] or 0) > 0.75,
    ),
    Column("IN-TODAY", "putTodayCount", is_number=True, is_wide=True),
    Column("OUT-TODAY", "getTodayCount", is_number=True, is_wide=True),
    Column("IN-YESTERDAY", "putYesterdayCount", is_number=True, is_wide=True),
    Column("OUT-YESTERDAY", "getYesterdayCount", is_number=True, is_wide=True),
    Column("SENDS-WAIT", "sendThreadPoolQueueSize", show=_show_pool("sendThreadPoolQueue"), is_wide=True),
    Column("PULLS-WAIT", "pullThreadPoolQueueSize", show=_show_pool("pullThreadPoolQueue"), is_wide=True),
    Column("TIMER", "timerCongestNum", show=_show_timer, is_wide=True),
    Column("PAGE-LOCK-MS", "pageCacheLockTimeMills", is_number=True, is_wide=True),
    Column("NOT-DISPATCHED", "dispatchBehindBytes", is_number=True, is_wide=True),
    Column("ACTIVE", "brokerActive", show=lambda item: _YES_NO[item["brokerActive"]], is_wide=True),
    Column("OLDEST", "earliestMessageTimeStamp", is_time=True, is_wide=True),
    Column("STARTED", "bootTimestamp", is_time=True, is_wide=True),
    Column("ERROR", "error", show=lambda item: item["error"] or "", is_alarm=lambda item: item["error"] is not None),
)
