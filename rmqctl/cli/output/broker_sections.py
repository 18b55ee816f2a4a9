"""How `broker show` shows a replica in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmqctl.text.durations import short_duration
from rmqctl.text.numbers import rate_cell
from rmqctl.text.words import counted

from .listing import Column, Item, Section


def sections_of(item: Item, is_wide: bool) -> list[Section]:
    """Return the sections of one replica; `is_wide` adds empty thread pools and delay levels."""
    title = f"{item['brokerName']}: {item['role']} {item['brokerId']} at {item['brokerAddr']}"
    if item["error"] is not None:
        return [Section(title, [("error", item["error"])])]
    parts = [Section(title, _running(item)), Section("Store", _store(item))]
    pools = [pool for pool in item["threadPools"] if is_wide or pool["queueSize"] or pool["headWaitMs"]]
    if pools:
        parts.append(Section("Thread pools", columns=_POOLS, items=pools))
    levels = [level for level in item["delayLevels"] if is_wide or level["backlog"]]
    parts.append(Section("Delayed messages", _delayed(item), _LEVELS, levels))
    parts.append(Section("Settings", list(item["settings"].items())))
    if item["configDifferences"]:
        parts.append(Section("Settings that differ from the master's", (), _DIFFERENCES, item["configDifferences"]))
    if item.get("config"):
        parts.append(Section("Configuration", list(item["config"].items())))
    if item.get("runtime"):
        parts.append(Section("Runtime table", list(item["runtime"].items())))
    return parts


def _running(item: Item) -> list[tuple[str, str]]:
    uptime = "-" if item["uptimeMs"] is None else short_duration(item["uptimeMs"])
    return [
        ("cluster", item["clusterName"]),
        ("version", _plain(item["version"])),
        ("started", f"{item['bootTimestampIso'] or '-'}, up {uptime}"),
        ("active", {True: "yes", False: "no", None: "-"}[item["brokerActive"]]),
        ("in, msg/s", _rates(item, "putTps")),
        ("out, msg/s", _rates(item, "getTps")),
        ("in today, yesterday", f"{_plain(item['putTodayCount'])}, {_plain(item['putYesterdayCount'])}"),
        ("out today, yesterday", f"{_plain(item['getTodayCount'])}, {_plain(item['getYesterdayCount'])}"),
        ("thread pools waiting", _waiting(item["threadPools"])),
    ]


def _store(item: Item) -> list[tuple[str, str]]:
    disk = f"{_percent(item['commitLogDiskRatio'])}, consume queues {_percent(item['consumeQueueDiskRatio'])}"
    lock_ms = item["pageCacheLockTimeMills"]
    return [
        ("disk used, commit log", disk),
        ("commit log", f"{_plain(item['commitLogMinOffset'])} to {_plain(item['commitLogMaxOffset'])}"),
        ("oldest message", item["earliestMessageTimeStampIso"] or "-"),
        ("not yet in consume queues", _bytes(item["dispatchBehindBytes"])),
        ("not yet on disk", _plain(item["remainHowManyDataToFlush"])),
        ("page cache locked", "-" if lock_ms is None else f"{lock_ms} ms"),
    ]


def _delayed(item: Item) -> list[tuple[str, str]]:
    backlog = sum(level["backlog"] for level in item["delayLevels"])
    # Levels that a broker does not report may contain messages (4.9).
    facts = [("waiting in delay levels", str(backlog) if item["delayLevels"] else "none reported")]
    if item["timerCongestNum"] is not None:
        behind_s = item["timerReadBehindS"]
        late = "-" if behind_s is None else short_duration(behind_s * 1000)
        facts.append(("timer wheel", f"{item['timerCongestNum']} waiting, {late} late"))
        facts.append(("not yet on the wheel", _plain(item["timerOffsetBehind"])))
    return facts


def _waiting(pools: Sequence[Item]) -> str:
    if all(pool["queueSize"] is None for pool in pools):
        return "-"
    waiting = [f"{pool['pool']} {pool['queueSize']}" for pool in pools if pool["queueSize"]]
    return ", ".join(waiting) or "none"


def _rates(item: Item, prefix: str) -> str:
    reported = [(item[f"{prefix}{span}"], words) for span, words in (("10s", "10s"), ("60s", "1m"), ("600s", "10m"))]
    return ", ".join(f"{rate_cell(rate)} ({words})" for rate, words in reported if rate is not None) or "-"


def _plain(value: Any) -> str:
    return "-" if value is None else str(value)


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.0%}"


def _bytes(count: int | None) -> str:
    return "-" if count is None else counted(count, "byte")


_POOLS = (
    Column("POOL", "pool"),
    Column("WAITING", "queueSize", is_number=True),
    Column("HEAD-WAIT-MS", "headWaitMs", is_number=True),
    Column("CAPACITY", "capacity", is_number=True),
)
_LEVELS = (
    Column("LEVEL", "level", is_number=True),
    Column("DELAY", "delay", is_number=True),
    Column("DELIVERED", "deliveredOffset", is_number=True),
    Column("MAX", "maxOffset", is_number=True),
    Column("WAITING", "backlog", is_number=True),
)
_DIFFERENCES = (
    Column("SETTING", "name"),
    Column("MASTER", "master", show=lambda item: _plain(item["master"])),
    Column("SLAVE", "here", show=lambda item: _plain(item["here"])),
)
