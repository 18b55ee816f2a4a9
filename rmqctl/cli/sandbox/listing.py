"""How a running sandbox is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rmqctl.cli.output.listing import Column, Item, Listing, Section
from rmqctl.model.failure import Failure
from rmqctl.sandbox.control.messages import SandboxStatus
from rmqctl.text.durations import short_duration
from rmqctl.text.times import iso_time


def to_listing(
    statuses: Sequence[SandboxStatus], failures: Sequence[Failure] = (), notes: Sequence[str] = ()
) -> Listing:
    """Return the listing of running sandboxes."""
    return Listing(
        kind="SandboxStatus",
        columns=COLUMNS,
        items=[_item(status) for status in statuses],
        name=lambda item: str(item["namesrv"]),
        failures=failures,
        notes=notes,
        empty="No sandbox is running. Start one with rmqctl sandbox up.",
        sections=_sections,
    )


def _item(status: SandboxStatus) -> dict[str, Any]:
    item: dict[str, Any] = msgspec.to_builtins(status)
    brokers = item.pop("brokers")
    return {**item, "startTimestampIso": iso_time(status.start_timestamp), "brokers": brokers}


def _sections(item: Item, is_wide: bool) -> list[Section]:
    facts = [
        ("emulates", f"RocketMQ {item['plays']}, cluster {item['clusterName']}"),
        ("data", "in memory only" if item["dir"] is None else f"in {item['dir']}"),
        ("clock", _clock(item["clockAheadMs"])),
    ]
    if item["faultCount"] or item["partitionCount"]:
        facts.append(("faults", f"{item['faultCount']} planned, partitioned clients: {item['partitionCount']}"))
    if is_wide:
        facts += [("process", str(item["pid"])), ("since", str(item["startTimestampIso"]))]
    columns = [column for column in _BROKERS if is_wide or not column.is_wide]
    return [Section(f"Name server {item['namesrv']}", facts), Section(None, (), columns, item["brokers"])]


def _clock(ahead_ms: int) -> str:
    return f"{short_duration(ahead_ms)} ahead of the machine's" if ahead_ms else "the machine's"


def _state(item: Item) -> str:
    if not item["isRunning"]:
        return "stopped"
    return "running" if item["isWritable"] else "refuses writes"


COLUMNS = (
    Column("NAMESRV", "namesrv"),
    Column("RELEASE", "plays"),
    Column("CLUSTER", "clusterName"),
    Column("DIR", "dir"),
    Column("PID", "pid", is_number=True),
    Column("STARTED", "startTimestamp", show=lambda item: str(item["startTimestampIso"])),
    Column("CLOCK", "clockAheadMs", show=lambda item: _clock(item["clockAheadMs"])),
    Column("CONNECTIONS", "connectionCount", is_number=True),
    Column("FAULTS", "faultCount", is_number=True),
    Column("PARTITIONS", "partitionCount", is_number=True),
    Column("BROKERS", "brokers", show=lambda item: " ".join(each["brokerAddr"] for each in item["brokers"])),
)
_BROKERS = (
    Column("BROKER", "brokerName"),
    Column("ADDRESS", "brokerAddr"),
    Column("STATE", "isRunning", show=_state, is_alarm=lambda item: _state(item) != "running"),
    Column("TOPICS", "topicCount", is_number=True),
    Column("GROUPS", "groupCount", is_number=True),
    Column("MEMBERS", "memberCount", is_number=True),
    Column("MESSAGES", "messageCount", is_number=True),
    Column("HELD", "heldCount", is_number=True),
    Column("PRODUCERS", "producerCount", is_number=True, is_wide=True, gives_way=True),
    Column("CONNECTIONS", "connectionCount", is_number=True, is_wide=True, gives_way=True),
    Column(
        "SKEW", "clockSkewMs", show=lambda item: short_duration(item["clockSkewMs"]) if item["clockSkewMs"] else "-",
        is_wide=True,
    ),
)  # fmt: skip
