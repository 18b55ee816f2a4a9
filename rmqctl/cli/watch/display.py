"""What rmqctl watch shows: its columns."""

from __future__ import annotations

from rmqctl.cli.output.listing import Column, Item
from rmqctl.cli.output.totals import show_total
from rmqctl.text.durations import short_duration


def show_time_lag(item: Item) -> str:
    """Return the age of the oldest unread message, or its lower bound."""
    if item["timeLagMs"] is not None:
        return short_duration(item["timeLagMs"])
    return f">={short_duration(item['timeLagMsAtLeast'])}" if item["timeLagMsAtLeast"] else "-"


HEALTH_HELP = """\
  REWIND   the offset went back
  STOP     no member holds the queue, and its offset does not move
  STALL    the offset does not move, although messages are unread
  WARN     the lag grows
  UNKNOWN  something could not be read, or no offset is stored
  OK       the group keeps up, or was caught up at some time in --window
"""
"""What the verdicts mean, for help."""

COLUMNS = (
    Column("AT", "at", show=lambda item: f"{item['atIso'][11:19]}Z"),
    Column("CLUSTER", "cluster", is_wide=True),
    Column("GROUP", "group"),
    Column("HEALTH", "health", is_alarm=lambda item: item["health"] != "OK"),
    Column("BEFORE", "before"),
    Column("LAG", "lag", show=show_total("lag"), is_number=True),
    Column("TIME-LAG", "timeLagMs", show=show_time_lag, is_number=True),
    Column("MEMBERS", "memberCount", is_number=True),
    Column("QUEUES", "queueCount", is_number=True, is_wide=True),
    Column("RULE", "rule"),
    Column("WORST-QUEUE", "worstQueue", is_wide=True),
    Column("REASON", "reason", is_sentence=True),
)
