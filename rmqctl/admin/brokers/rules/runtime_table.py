"""Read a broker's runtime table (GET_BROKER_RUNTIME_INFO), whose texts differ between 4.9 and 5.x."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

from msgspec import Struct

_MAX_DIGITS = 18  # of a long; longer texts are not counts
_UPTIME = re.compile(r"\[ (\d{1,9}) days, (\d{1,9}) hours, (\d{1,9}) minutes, (\d{1,9}) seconds \]")
_POOL_NAMES = ("send", "pull", "litePull", "query", "ack")
# Key prefixes by pool; only one breaks the rule.
_POOLS = {name: (f"{name}ThreadPoolQueue", f"{name}ThreadPoolQueueCapacity") for name in _POOL_NAMES}
_POOLS["endTransaction"] = ("EndTransactionQueue", "EndTransactionThreadPoolQueueCapacity")


class Rates(Struct, frozen=True):
    """Rates per second over the last 10 s, 1 min and 10 min; None until the broker has run for that long."""

    last_10s: float | None = None
    last_1m: float | None = None
    last_10m: float | None = None


class PoolState(Struct, frozen=True):
    """One of a broker's thread pools: waiting requests, the wait of the first one, and the capacity."""

    name: str
    queue_size: int | None = None
    head_wait_ms: int | None = None
    capacity: int | None = None


class DelayLevel(Struct, frozen=True):
    """One delay level: how far its queue is delivered, and its end. `backlog` counts messages that are not due yet."""

    level: int
    delay: str | None
    delivered_offset: int
    max_offset: int

    @property
    def backlog(self) -> int:
        """The number of messages that are not delivered yet."""
        return max(self.max_offset - self.delivered_offset, 0)


class BrokerRuntime(Struct, frozen=True):
    """The values of a runtime table; None: not reported, or not in a known format.

    Ratios are 0 to 1; counts of today and yesterday go by the broker's own midnight.
    """

    version: str | None
    boot_at_ms: int | None
    uptime_ms: int | None
    is_active: bool | None
    put_tps: Rates
    get_tps: Rates
    put_today_count: int | None
    get_today_count: int | None
    put_yesterday_count: int | None
    get_yesterday_count: int | None
    commit_log_disk_ratio: float | None
    consume_queue_disk_ratio: float | None
    commit_log_min_offset: int | None
    commit_log_max_offset: int | None
    earliest_message_at_ms: int | None
    dispatch_behind_bytes: int | None
    page_cache_lock_ms: int | None
    flush_behind: str | None
    timer_read_behind_s: int | None
    timer_offset_behind: int | None
    timer_congest_count: int | None
    timer_enqueue_tps: float | None
    timer_dequeue_tps: float | None
    pools: tuple[PoolState, ...]
    delay_levels: tuple[DelayLevel, ...]

    def pool(self, name: str) -> PoolState:
        """Return the state of a pool; without values when the table does not have it."""
        return next((pool for pool in self.pools if pool.name == name), PoolState(name))


def read_runtime(table: Mapping[str, str], *, message_delay_level: str | None = None) -> BrokerRuntime:
    """Parse a runtime table; `message_delay_level` is the broker's setting with the delays of its levels."""
    return BrokerRuntime(
        version=table["brokerVersionDesc"] if table.get("brokerVersionDesc") else None,
        boot_at_ms=_time(table.get("bootTimestamp")),
        uptime_ms=_uptime(table.get("runtime")),
        is_active={"true": True, "false": False}.get(table.get("brokerActive", "")),
        put_tps=_rates(table, "putTps"),
        get_tps=_rates(table, "getTransferredTps", "getTransferedTps"),
        put_today_count=_difference(table, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
        get_today_count=_difference(table, "msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
        put_yesterday_count=_difference(table, "msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning"),
        get_yesterday_count=_difference(table, "msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning"),
        commit_log_disk_ratio=_ratio(table.get("commitLogDiskRatio")),
        consume_queue_disk_ratio=_ratio(table.get("consumeQueueDiskRatio")),
        commit_log_min_offset=_count(table.get("commitLogMinOffset")),
        commit_log_max_offset=_count(table.get("commitLogMaxOffset")),
        earliest_message_at_ms=_time(table.get("earliestMessageTimeStamp")),
        dispatch_behind_bytes=_count(table.get("dispatchBehindBytes")),
        page_cache_lock_ms=_count(table.get("pageCacheLockTimeMills")),
        flush_behind=table.get("remainHowManyDataToFlush"),
        timer_read_behind_s=_count(table.get("timerReadBehind")),
        timer_offset_behind=_count(table.get("timerOffsetBehind")),
        timer_congest_count=_count(table.get("timerCongestNum")),
        timer_enqueue_tps=_float(table.get("timerEnqueueTps")),
        timer_dequeue_tps=_float(table.get("timerDequeueTps")),
        pools=tuple(_pools(table)),
        delay_levels=tuple(_delay_levels(table, (message_delay_level or "").split())),
    )


def _rates(table: Mapping[str, str], *names: str) -> Rates:
    """Parse "10s 60s 600s"; each is missing until the broker has run for that long."""
    for name in names:
        if name in table:
            return Rates(*[_float(part) for part in table[name].split()[:3]])
    return Rates()


def _pools(table: Mapping[str, str]) -> list[PoolState]:
    pools = []
    for name, (prefix, capacity_key) in _POOLS.items():
        size = _count(table.get(f"{prefix}Size"))
        wait_ms = _count(table.get(f"{prefix}HeadWaitTimeMills"))
        capacity = _count(table.get(capacity_key))
        if (size, wait_ms, capacity) != (None, None, None):
            pools.append(PoolState(name, size, wait_ms, capacity))
    return pools


def _delay_levels(table: Mapping[str, str], delays: list[str]) -> list[DelayLevel]:
    """Parse scheduleMessageOffset_N: "delivered,max" for each level that was ever used."""
    levels = []
    for key, value in table.items():
        level = _count(key.removeprefix("scheduleMessageOffset_")) if key.startswith("scheduleMessageOffset_") else None
        delivered, _, end = value.partition(",")
        delivered_offset, max_offset = _count(delivered), _count(end)
        if level is None or delivered_offset is None or max_offset is None:
            continue
        delay = delays[level - 1] if 0 < level <= len(delays) else None
        levels.append(DelayLevel(level, delay, delivered_offset, max_offset))
    return sorted(levels, key=lambda item: item.level)


def _difference(table: Mapping[str, str], now: str, morning: str) -> int | None:
    last, first = _count(table.get(now)), _count(table.get(morning))
    return last - first if last is not None and first is not None else None


def _count(text: str | None) -> int | None:
    """Return a number of 0 or more, else None; brokers write -1 for unknown values."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        return None
    return int(text)


def _float(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) else None  # a division by zero in Java gives NaN, which JSON does not allow


def _ratio(text: str | None) -> float | None:
    ratio = _float(text)
    return ratio if ratio is not None and 0 <= ratio <= 1 else None


def _time(text: str | None) -> int | None:
    return _count(text) or None


def _uptime(text: str | None) -> int | None:
    match = _UPTIME.fullmatch(text or "")
    if match is None:
        return None
    days, hours, minutes, seconds = map(int, match.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
