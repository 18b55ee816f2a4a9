"""What rmqctl check shows: its columns, and its own formats."""

from __future__ import annotations

from collections.abc import Callable

from rmqctl.cli.output.listing import Column, Item
from rmqctl.text.durations import short_duration

OWN_FORMATS = ("text", "nagios", "prometheus", "junit")  # the default first


def _show_value(item: Item) -> str:
    if item["valueAtLeast"] is None:
        return "-"
    at_least = short_duration(item["valueAtLeast"]) if item["unit"] == "ms" else str(item["valueAtLeast"])
    return at_least if item["value"] is not None else f">={at_least}" if item["valueAtLeast"] else "-"


def _show_limit(key: str) -> Callable[[Item], str]:
    def show(item: Item) -> str:
        limit = item[key]
        return "-" if limit is None else short_duration(limit) if item["unit"] == "ms" else str(limit)

    return show


COLUMNS = (
    Column("STATUS", "status", is_alarm=lambda item: item["status"] != "OK"),
    Column("CONTEXT", "context", is_wide=True),
    Column("GROUP", "group"),
    Column("TOPICS", "topics", show=lambda item: ",".join(item["topics"]) or "-", is_wide=True),
    Column("LIMIT", "limit"),
    Column("VALUE", "value", show=_show_value, is_number=True),
    Column("WARNING", "warning", show=_show_limit("warning"), is_number=True),
    Column("CRITICAL", "critical", show=_show_limit("critical"), is_number=True),
    Column("FOUND", "sentence", is_sentence=True),
    Column("NEXT", "nextCommand", is_sentence=True, is_wide=True),
)
