"""The sweep of rmqctl whatif churn: its option, and the result as rows and as a sentence."""

from __future__ import annotations

from rmqctl.cli.arguments import milliseconds_option
from rmqctl.cli.output.listing import Column, Item
from rmqctl.errors import UsageError
from rmqctl.text.durations import exact_duration
from rmqctl.whatif.churn.sweep import Measure, SweepChoice, SweepEvent

from .churn_table import COLUMNS, churn_item

_EXAMPLE = "Use for example --sweep protect=0s..5m."
_WORDS = {
    SweepEvent.SIMULATED: "all happens as simulated",
    SweepEvent.DEATH: "a client vanishes for good",
    SweepEvent.REPLACEMENT: "a client is killed and replaced",
    SweepEvent.RESTART: "all clients restart at once",
}
_MEASURES = {Measure.DUPLICATES: "duplicates", Measure.MOVES: "queue moves"}
_SHOWN = ("protectMs", "moveCount", "unownedMs", "duplicateCount", "mostQueues", "waitedMs")

COST_COLUMNS = (
    Column("IF", "event", show=lambda item: _WORDS[SweepEvent(item["event"])], is_kept=True),
    *(column for column in COLUMNS if column.key in _SHOWN),
)


def read_sweep(text: str) -> tuple[int, int]:
    """Return the shortest and the longest protection time of a range, in ms. Raises UsageError."""
    name, equals, times = text.partition("=")
    least, dots, most = times.partition("..")
    if name != "protect" or not equals or not dots:
        raise UsageError(f"--sweep {text}: a range of protection times is needed.", hint=_EXAMPLE)
    least_ms, most_ms = milliseconds_option("--sweep", least), milliseconds_option("--sweep", most)
    if most_ms <= least_ms:
        raise UsageError(f"--sweep {text}: the second time must be longer than the first.", hint=_EXAMPLE)
    return least_ms, most_ms


def sweep_item(choice: SweepChoice) -> Item:
    """Return a choice by the keys of ChurnList.json."""
    return {
        "leastMs": choice.least_ms,
        "mostMs": choice.most_ms,
        "measure": choice.measure.value,
        "protectMs": choice.protection_ms,
        "costs": [
            {
                "event": cost.event.value,
                "unprotected": churn_item(cost.unprotected),
                "protected": churn_item(cost.protected),
            }
            for cost in choice.costs
        ],
    }


def cost_items(choice: SweepChoice) -> list[Item]:
    """Return the rows of the costs, of each event without and with protection."""
    return [
        {"event": cost.event.value, **churn_item(outcome)}
        for cost in choice.costs
        for outcome in (cost.unprotected, cost.protected)
    ]


def sweep_words(choice: SweepChoice) -> str:
    """Return a sentence that says which time is chosen, and why."""
    between = f"from {exact_duration(choice.least_ms)} to {exact_duration(choice.most_ms)}"
    if choice.protection_ms is None:
        return f"No protection time {between} has clearly fewer duplicates or queue moves than runs without protection."
    time = exact_duration(choice.protection_ms)
    gains = f"almost all {_MEASURES[choice.measure]}, and almost all time without an owner, that protection can avoid"
    return f"{time} is the shortest protection time {between} that avoids {gains}."
