"""What rmqctl top shows: its items and columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from rmqctl.cli.group.members import COLUMNS as MEMBER_COLUMNS
from rmqctl.cli.group.members import reported_by
from rmqctl.cli.output.listing import Column, Item
from rmqctl.cli.watch.display import COLUMNS
from rmqctl.model.group import GroupState
from rmqctl.observe.fleet_activity import GroupActivity, GroupKey
from rmqctl.rules.health import WORST_FIRST, Health, judge_group
from rmqctl.text.numbers import rate_cell
from rmqctl.watch.health import GroupHealth
from rmqctl.watch.items import health_item, queue_item
from rmqctl.watch.rounds import WatchRound

from .sparkline import sparkline

BARS = "consumeHistory"
"""The key of a function that returns a group's rates from round to round. It is called only for rows on the screen."""
BARS_WIDTH = 12


def group_item(group: GroupHealth, found: WatchRound, history: Callable[[], Sequence[float | None]]) -> Item:
    """Return a group as its verdict has it, with its rates from round to round, and the number of members."""
    members = _last_members(group, found.activities.get(group.key))
    return {**health_item(group, found.befores.get(group.key)), **members, BARS: history}


def _last_members(group: GroupHealth, activity: GroupActivity | None) -> dict[str, Any]:
    """Return the number of members, if need be that of an earlier round."""
    count, members = group.member_count, None if activity is None else activity.members
    if count is not None or members is None:
        return {"members": count, "areMembersOld": False}
    return {"members": members.member_count, "areMembersOld": True}


def _show_members(item: Item) -> str:
    return "-" if item["members"] is None else f"{'~' if item['areMembersOld'] else ''}{item['members']}"


NO_GROUP = group_item(
    GroupHealth(GroupKey("", ""), 0, GroupState.UNKNOWN, judge_group({}), (), ()), WatchRound(0, (), {}, ()), list
)
"""An item with the keys that each group has."""


def queue_items(group: GroupHealth) -> list[Item]:
    """Return the queues of a group, the worst first."""
    seen = [(queue, queue.row) for queue in group.queues if queue.row is not None]
    seen.sort(key=lambda pair: (WORST_FIRST.index(pair[0].verdict.health), -(pair[1].lag or 0)))
    return [queue_item(queue) for queue, _ in seen]


def member_items(group: GroupHealth, activity: GroupActivity | None) -> list[Item]:
    """Return the members of a group as the last look at it has shown them, the one with the most unread messages first.

    The lag of a member is that of its queues; None when it is unknown.
    """
    members = None if activity is None else activity.members
    if members is None:
        return []
    lags = {queue.mq: queue.row.lag for queue in group.queues if queue.row is not None}
    items: list[dict[str, Any]] = []
    for client_id in members.client_ids:
        info = members.running.get(client_id)
        held = [] if info is None else [lags.get(mq) for mq, queue in info.process_queues.items() if not queue.dropped]
        known = [lag for lag in held if lag is not None]
        is_known = info is not None and len(known) == len(held)
        items.append({"clientId": client_id, "lag": sum(known) if is_known else None, **reported_by(info)})
    return sorted(items, key=lambda item: -(item["lag"] or 0))


def _show_rate(key: str) -> Any:
    def show(item: Item) -> str:
        rate = item[key]
        return rate_cell(rate) if rate is None or abs(rate) < 9.95 else f"{rate:.0f}"

    return show


def show_rates(item: Item) -> str:
    """Return the rates for a sentence."""
    shown = {"in": _show_rate("produceMsgsPerS")(item), "out": _show_rate("consumeMsgsPerS")(item)}
    return ", ".join(f"{name} {'unknown' if rate == '-' else f'{rate}/s'}" for name, rate in shown.items())


def _is_bad(item: Item) -> bool:
    return str(item["health"]) in (Health.REWIND, Health.STOP, Health.STALL)


_OF_WATCH = {column.key: column for column in COLUMNS}
_LAG = Column("LAG", "lag", is_number=True)
_TIME_LAG = _OF_WATCH["timeLagMs"]
_RATES = (
    Column("IN/S", "produceMsgsPerS", show=_show_rate("produceMsgsPerS"), is_number=True),
    Column("OUT/S", "consumeMsgsPerS", show=_show_rate("consumeMsgsPerS"), is_number=True),
)
_HEALTH = Column("HEALTH", "health", is_alarm=_is_bad)

LINES = tuple(
    each
    for column in COLUMNS
    if column.key != "before"
    for each in ((column, *_RATES) if column is _TIME_LAG else (column,))
)
"""The columns of lines, without a screen."""

GROUPS = (
    Column("CLUSTER", "cluster", gives_way=1),
    _OF_WATCH["group"],
    _HEALTH,
    _OF_WATCH["lag"],
    _TIME_LAG,
    *_RATES,
    Column(
        "OUT",
        BARS,
        show=lambda item: sparkline(item[BARS](), BARS_WIDTH),
        is_number=True,
        gives_way=4,
    ),
    Column("MEMBERS", "members", show=_show_members, is_number=True, gives_way=3),
    Column("QUEUES", "queueCount", is_number=True, gives_way=2),
    Column("RULE", "rule", gives_way=1),
)
QUEUES = (
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("Q", "queueId", is_number=True),
    _HEALTH,
    _LAG,
    _TIME_LAG,
    *_RATES,
    Column("CLIENT", "clientIds", show=lambda item: ",".join(item["clientIds"]) or "-", is_kept=True),
    Column("OFFSET", "consumerOffset", is_number=True, gives_way=1),
    Column("END", "maxOffset", is_number=True, gives_way=1),
    Column("RULE", "rule", gives_way=1),
)
_OF_MEMBERS = {column.key: column for column in MEMBER_COLUMNS}
MEMBERS = (
    _OF_MEMBERS["clientId"],
    _OF_MEMBERS["queueCount"],
    _LAG,
    *(_OF_MEMBERS[key] for key in ("cachedMsgCount", "consumeOkTps", "consumeFailedTps", "consumeRtMs", "strategy")),
    replace(_OF_MEMBERS["startTimestamp"], gives_way=2),
)


def identity(item: Item) -> tuple[Any, ...]:
    """Return what identifies a row of any of these tables."""
    return tuple(item.get(key) for key in ("cluster", "group", "topic", "brokerName", "queueId", "clientId"))
