"""The columns and items of rmqctl whatif churn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rmqctl.cli.output.listing import Column, Item
from rmqctl.text.durations import short_duration
from rmqctl.whatif.churn.changes import BrokerStop, CutBegin, MemberEnd, MemberStart

if TYPE_CHECKING:
    from rmqctl.whatif.churn.runs import ChurnOutcome, Range
    from rmqctl.whatif.churn.trace import ChurnTrace


def churn_item(outcome: ChurnOutcome) -> Item:
    """Return the row of one protection time, by the keys of ChurnList.json."""
    item: dict[str, Any] = {
        "protectMs": outcome.protection_ms, "runCount": outcome.run_count, "changeCount": outcome.change_count,
        "messageCount": outcome.message_count,
    }  # fmt: skip
    for key, values in (
        ("rebalanceCount", outcome.rebalance_count), ("moveCount", outcome.move_count),
        ("sharedMs", outcome.shared_ms), ("unownedMs", outcome.unowned_ms),
        ("duplicateCount", outcome.duplicate_count), ("settledMs", outcome.settled_ms),
        ("unsettledCount", outcome.unsettled_count), ("mostQueues", outcome.most_queues),
        ("waitedMs", outcome.waited_ms),
    ):  # fmt: skip
        item |= _range_item(key, values)
    return item


def trace_item(recorded: ChurnTrace) -> Item:
    """Return what a recording shows, by the keys of ChurnList.json."""
    return {
        "sampleCount": recorded.sample_count,
        "partialSampleCount": recorded.partial_count,
        "intervalMs": recorded.interval_ms,
        "longestGapMs": recorded.gap_ms,
        "startCount": recorded.count(MemberStart),
        "endCount": recorded.count(MemberEnd),
        "silenceCount": recorded.count(CutBegin),
        "brokerStopCount": recorded.count(BrokerStop),
        "moveCount": len(recorded.moves_ms),
        "unknownRateCount": len(recorded.queues) - len(recorded.rates),
        "strategyFitCount": recorded.fit_count,
        "strategySampleCount": recorded.owned_count,
    }


def _range_item(key: str, values: Range | None) -> Item:
    """Return the three keys of a range; null is unknown."""
    if values is None:
        return dict.fromkeys((key, f"{key}Least", f"{key}Most"))
    # An average of counts has decimals, the smallest and the largest have none.
    return {
        key: round(values.mean, 1), f"{key}Least": round(values.least), f"{key}Most": round(values.most)
    }  # fmt: skip


def _show_range(key: str, show: Callable[[float], str]) -> Callable[[Item], str]:
    def cell(item: Item) -> str:
        if item[key] is None:
            return "-"
        mean, least, most = (show(item[name]) for name in (key, f"{key}Least", f"{key}Most"))
        return mean if least == most else f"{mean} ({least}-{most})"

    return cell


def _number(value: float) -> str:
    return f"{value:.0f}"


def _seconds(value_ms: float) -> str:
    return f"{value_ms / 1000:.1f}s" if 0 < value_ms < 60_000 else short_duration(round(value_ms))


def show_protection(item: Item) -> str:
    """Return a protection time as people read it."""
    return short_duration(item["protectMs"]) if item["protectMs"] else "none"


def _column(heading: str, key: str, show: Callable[[float], str], *, gives_way: int = 0) -> Column:
    return Column(heading, key, show=_show_range(key, show), is_number=True, gives_way=gives_way)


COLUMNS = (
    Column("PROTECT", "protectMs", show=show_protection, is_kept=True),
    _column("REBALANCES", "rebalanceCount", _number, gives_way=2),
    _column("MOVES", "moveCount", _number),
    _column("TWO-OWNERS", "sharedMs", _seconds),
    _column("NO-OWNER", "unownedMs", _seconds),
    _column("DUPLICATES", "duplicateCount", _number),
    _column("SETTLED", "settledMs", _seconds, gives_way=3),
    _column("UNSETTLED", "unsettledCount", _number, gives_way=1),
    _column("MOST", "mostQueues", _number, gives_way=1),
    _column("START-WAIT", "waitedMs", _seconds, gives_way=1),
)
