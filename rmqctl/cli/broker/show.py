"""rmqctl broker show: runtime state and configuration of one broker, replica by replica."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each. What asks
# the cluster is imported when the command runs, so that --help needs none of it.
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.broker_sections import sections_of
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.cli.output.render import choose_columns, render
from rmqctl.model.route import MASTER_ID
from rmqctl.rules.broker_config import CONSUMER_SETTINGS, RETENTION_SETTINGS
from rmqctl.text.numbers import rate_cell
from rmqctl.text.times import iso_time
from rmqctl.text.wildcards import require_matching

if TYPE_CHECKING:
    from rmqctl.admin.brokers.details import BrokerDetails, ReplicaDetails

HELP = """\b
Examples:
  rmqctl broker show broker-a                       # every replica
  rmqctl broker show 10.0.0.7:10911                 # one replica
  rmqctl broker show broker-a --config              # the whole configuration
  rmqctl broker show broker-a --key '*Pop*'         # settings and runtime values by name
  rmqctl broker show broker-a --runtime             # the whole runtime table
  rmqctl broker show broker-a -o json | jq '.items[] | .settings.fileReservedTime'

Shows the settings that matter to consumers; a missing one is unknown to the broker's version. Values of settings that
can contain a secret are never shown. A slave's settings are compared with its master's.

Delay levels are those that the broker reports; 4.9 reports a level only after its first delivery."""


def command(
    ctx: typer.Context,
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="Broker name or address.", show_default=False)],
    address: Annotated[
        str | None, typer.Argument(metavar="[ADDR]", help="Show only the replica at this address.", show_default=False)
    ] = None,
    config: Annotated[bool, typer.Option("--config", help="Show the whole configuration.")] = False,
    runtime: Annotated[bool, typer.Option("--runtime", help="Show the whole runtime table.")] = False,
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="PATTERN", help="Show only names that match, in these tables. Repeatable."),
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.admin.brokers.details import fetch_broker_details

    invocation = Invocation(ctx)
    choose_columns(_COLUMNS, invocation.display)
    details = invocation.ask(lambda client: fetch_broker_details(client, broker, address))
    wanted = tuple(keys or ())
    is_both = bool(wanted) and not config and not runtime
    return render(
        to_listing(details, with_config=config or is_both, with_runtime=runtime or is_both, keys=wanted),
        invocation.display,
    )


def to_listing(
    details: "BrokerDetails", *, with_config: bool = False, with_runtime: bool = False, keys: tuple[str, ...] = ()
) -> Listing:
    """Return the listing of a broker's replicas. Raises NotFoundError for a key that no table has."""
    if keys:
        known = {name for replica in details.replicas for name in (*(replica.config or {}), *replica.table)}
        chosen = frozenset(require_matching("Setting", keys, known, with_case=False))

    def picked(table: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in table.items() if not keys or name in chosen}

    items = []
    for replica in details.replicas:
        item = _item(replica)
        for name, table, is_wanted in (
            ("config", replica.config, with_config),
            ("runtime", None if replica.runtime is None else replica.table, with_runtime),
        ):
            if is_wanted:
                item[name] = None if table is None else picked(table)
                if table is None:
                    item["reasons"][name] = item["error"]
        items.append(item)
    return Listing(
        kind="Broker",
        columns=_COLUMNS,
        items=items,
        name=lambda item: str(item["brokerAddr"]),
        failures=details.failures,
        sections=sections_of,
    )


def _item(replica: "ReplicaDetails") -> dict[str, Any]:
    measured = _measured(replica)
    reason = replica.error.name if replica.error is not None else "NOT_REPORTED"
    reasons = {name: reason for name, value in measured.items() if value is None}
    differences = None
    if replica.differences is not None:
        differences = [
            {"name": name, "master": master, "here": here} for name, (master, here) in replica.differences.items()
        ]
    else:
        is_master = replica.broker_id == MASTER_ID
        reasons["configDifferences"] = "IS_MASTER" if is_master else "NOT_COMPARED"
    return {
        "brokerName": replica.broker.broker_name,
        "clusterName": replica.broker.cluster,
        "brokerId": replica.broker_id,
        "role": "master" if replica.broker_id == MASTER_ID else "slave",
        "brokerAddr": replica.address,
        **measured,
        "earliestMessageTimeStampIso": iso_time(measured["earliestMessageTimeStamp"]),
        "bootTimestampIso": iso_time(measured["bootTimestamp"]),
        "configDifferences": differences,
        "error": replica.error.name if replica.error is not None else None,
        "reasons": reasons,
    }


def _measured(replica: "ReplicaDetails") -> dict[str, Any]:
    """Return the values of a replica under RocketMQ's names, all None if it did not answer."""
    runtime = replica.runtime
    if runtime is None:
        return dict.fromkeys(_MEASURED)
    config = replica.config or {}
    values = (
        replica.version,
        runtime.boot_at_ms,
        runtime.uptime_ms,
        runtime.is_active,
        runtime.put_tps.last_10s,
        runtime.put_tps.last_1m,
        runtime.put_tps.last_10m,
        runtime.get_tps.last_10s,
        runtime.get_tps.last_1m,
        runtime.get_tps.last_10m,
        runtime.put_today_count,
        runtime.get_today_count,
        runtime.put_yesterday_count,
        runtime.get_yesterday_count,
        runtime.commit_log_disk_ratio,
        runtime.consume_queue_disk_ratio,
        runtime.commit_log_min_offset,
        runtime.commit_log_max_offset,
        runtime.earliest_message_at_ms,
        runtime.dispatch_behind_bytes,
        runtime.page_cache_lock_ms,
        runtime.flush_behind,
        runtime.timer_read_behind_s,
        runtime.timer_offset_behind,
        runtime.timer_congest_count,
        runtime.timer_enqueue_tps,
        runtime.timer_dequeue_tps,
        [
            _reported(pool=pool.name, queueSize=pool.queue_size, headWaitMs=pool.head_wait_ms, capacity=pool.capacity)
            for pool in runtime.pools
        ],
        [
            _reported(
                level=level.level,
                delay=level.delay,
                deliveredOffset=level.delivered_offset,
                maxOffset=level.max_offset,
                backlog=level.backlog,
            )
            for level in runtime.delay_levels
        ],
        {name: config[name] for name in (*RETENTION_SETTINGS, *CONSUMER_SETTINGS) if name in config},
    )
    return dict(zip(_MEASURED, values, strict=True))


def _reported(**values: Any) -> dict[str, Any]:
    return {**values, "reasons": {name: "NOT_REPORTED" for name, value in values.items() if value is None}}


_MEASURED = (
    "version",
    "bootTimestamp",
    "uptimeMs",
    "brokerActive",
    "putTps10s",
    "putTps60s",
    "putTps600s",
    "getTps10s",
    "getTps60s",
    "getTps600s",
    "putTodayCount",
    "getTodayCount",
    "putYesterdayCount",
    "getYesterdayCount",
    "commitLogDiskRatio",
    "consumeQueueDiskRatio",
    "commitLogMinOffset",
    "commitLogMaxOffset",
    "earliestMessageTimeStamp",
    "dispatchBehindBytes",
    "pageCacheLockTimeMills",
    "remainHowManyDataToFlush",
    "timerReadBehindS",
    "timerOffsetBehind",
    "timerCongestNum",
    "timerEnqueueTps",
    "timerDequeueTps",
    "threadPools",
    "delayLevels",
    "settings",
)


_COLUMNS = (
    Column("CLUSTER", "clusterName"),
    Column("BROKER", "brokerName"),
    Column("ID", "brokerId", is_number=True),
    Column("ROLE", "role"),
    Column("ADDRESS", "brokerAddr"),
    Column("VERSION", "version"),
    Column("IN/S", "putTps10s", show=lambda item: rate_cell(item["putTps10s"]), is_number=True),
    Column("OUT/S", "getTps10s", show=lambda item: rate_cell(item["getTps10s"]), is_number=True),
    Column("DISK", "commitLogDiskRatio", is_number=True),
    Column("OLDEST", "earliestMessageTimeStamp", is_time=True),
    Column("STARTED", "bootTimestamp", is_time=True),
    Column("ERROR", "error", show=lambda item: item["error"] or ""),
)
