"""GET_BROKER_RUNTIME_INFO: the broker's state in figures (AdminBrokerProcessor.getBrokerRuntimeInfo).

The sandbox has no thread pools and no page cache, and dispatches immediately: their backlogs are always 0. Latencies
are left out, because the sandbox does not measure them.
"""

from __future__ import annotations

from rmqctl.protocol.command import Command
from rmqctl.protocol.versions import version_name
from rmqctl.sandbox.broker import Broker
from rmqctl.sandbox.daily_totals import GET, PUT
from rmqctl.sandbox.request import Request, ok_json
from rmqctl.sandbox.stats import HOUR_S
from rmqctl.sandbox.topics.table import SCHEDULE_TOPIC

_POOLS = {"sendThreadPoolQueue": 10_000, "pullThreadPoolQueue": 100_000, "queryThreadPoolQueue": 20_000}
_POOLS_SINCE_5 = {"litePullThreadPoolQueue": 100_000, "ackThreadPoolQueue": 100_000}
_TRANSACTION_CAPACITY = 100_000
_KIB, _MIB, _GIB = 1024, 1024**2, 1024**3


def handle(broker: Broker, _: Request) -> Command:
    """Return the table; all values are texts."""
    table: dict[str, object] = {**_identity(broker), **_counts(broker), **_store(broker), **_idle(broker)}
    for level, consumed in broker.delays.consumed.items():
        table[f"scheduleMessageOffset_{level}"] = f"{consumed},{broker.store.max_offset(SCHEDULE_TOPIC, level - 1)}"
    return ok_json({"table": {name: str(value) for name, value in table.items()}})


def _identity(broker: Broker) -> dict[str, object]:
    version = broker.profile.version
    table: dict[str, object] = {
        "brokerVersionDesc": version_name(version),
        "bootTimestamp": broker.booted_at_ms,
        "runtime": _duration(broker.now_ms() - broker.booted_at_ms),
        "startAcceptSendRequestTimeStamp": 0,
    }
    return {**table, "brokerActive": "true"} if broker.profile.is_5 else {**table, "brokerVersion": version}


def _counts(broker: Broker) -> dict[str, object]:
    stats, cluster = broker.stats, broker.cluster
    now, totals = broker.daily_totals.note(stats, cluster), broker.daily_totals
    transferred = "getTransferredTps" if broker.profile.is_5 else "getTransferedTps"
    return {
        "msgPutTotalYesterdayMorning": totals.yesterday.put_count,
        "msgPutTotalTodayMorning": totals.today.put_count,
        "msgPutTotalTodayNow": now.put_count,
        "msgGetTotalYesterdayMorning": totals.yesterday.get_count,
        "msgGetTotalTodayMorning": totals.today.get_count,
        "msgGetTotalTodayNow": now.get_count,
        "putTps": _rates(broker, PUT),
        transferred: _rates(broker, GET),
    }


def _rates(broker: Broker, name: str) -> str:
    """Return the rates per second over the last 10 s, 60 s and 600 s."""
    stats, cluster = broker.stats, broker.cluster
    rates = stats.last_tps(name, cluster), stats.rate(name, cluster).tps, stats.last_tps(name, cluster, HOUR_S)
    return " ".join(map(str, rates))


def _store(broker: Broker) -> dict[str, object]:
    log, capacity_bytes = broker.store.log, broker.store.capacity_bytes
    used_bytes = log.end - log.start
    first = broker.store.message_in_log(log.start) if used_bytes else None
    used_ratio = f"{used_bytes / capacity_bytes:.2f}"
    return {
        "commitLogMinOffset": log.start,
        "commitLogMaxOffset": log.end,
        "earliestMessageTimeStamp": -1 if first is None else first.stored_at_ms,
        "remainHowManyDataToFlush": _size(log.end - log.flushed),
        "commitLogDirCapacity": f"Total : {_size(capacity_bytes)}, Free : {_size(capacity_bytes - used_bytes)}.",
        "commitLogDiskRatio": used_ratio,
        "consumeQueueDiskRatio": used_ratio,
    }


def _idle(broker: Broker) -> dict[str, object]:
    """Return the figures that never change in the sandbox, as an idle broker reports them."""
    is_5 = broker.profile.is_5
    table: dict[str, object] = {
        "pageCacheLockTimeMills": 0, "dispatchBehindBytes": 0, "dispatchMaxBuffer": 0,
        "remainTransientStoreBufferNumbs": 2**31 - 1, "EndTransactionQueueSize": 0,
        "EndTransactionThreadPoolQueueCapacity": _TRANSACTION_CAPACITY,
    }  # fmt: skip
    for pool, capacity in {**_POOLS, **(_POOLS_SINCE_5 if is_5 else {})}.items():
        table |= {f"{pool}Size": 0, f"{pool}HeadWaitTimeMills": 0, f"{pool}Capacity": capacity}
    if is_5:
        table |= {"timerReadBehind": 0, "timerOffsetBehind": 0, "timerCongestNum": len(broker.timers)}
        table |= {"timerEnqueueTps": 0.0, "timerDequeueTps": 0.0}
    return table


def _duration(length_ms: int) -> str:
    minutes, seconds = divmod(max(0, length_ms) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size(size_bytes: int) -> str:
    """Return a size for people (MessageStoreUtil.toHumanReadable)."""
    for unit_bytes, unit in ((_GIB, "GiB"), (_MIB, "MiB"), (_KIB, "KiB")):
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.1f} {unit}"
    return f"{size_bytes} B"
