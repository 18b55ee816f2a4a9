"""JSON items for the groups of `rmqctl diagnose`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rmqctl.text.times import time_fields

if TYPE_CHECKING:
    from rmqctl.diagnose.diagnosis import Diagnosis
    from rmqctl.diagnose.finding import Check
    from rmqctl.errors import RmqctlError


def group_item(one: Diagnosis, checks: Sequence[Check]) -> dict[str, Any]:
    """Make the item of a group that was read."""
    return {
        "group": one.facts.group,
        "state": one.facts.state,
        "findingCount": len(one.findings),
        "worstSeverity": str(one.findings[0].severity) if one.findings else None,
        "unknown": [
            {"need": str(need), "reason": reason, "codes": one.open_codes(checks, need)}
            for need, reason in one.unknown.items()
        ],
        "passedCodes": list(one.passed_codes),
        "readingCount": one.looks,
        **time_fields("readTimestamp", one.facts.at_ms),
        "clocks": _clock_items(one),
        "reasons": {} if one.findings else {"worstSeverity": "NO_FINDINGS"},
    }


def unread_item(group: str, error: RmqctlError, checks: Sequence[Check]) -> dict[str, Any]:
    """Make the item of a group that could not be read: nothing is known about it."""
    from rmqctl.diagnose.finding import Need

    unknown = ("findingCount", "worstSeverity", "readTimestamp", "readTimestampIso")
    return {
        "group": group,
        "state": "UNKNOWN",
        **dict.fromkeys(unknown),
        "unknown": [{"need": str(Need.BROKERS), "reason": error.sentence, "codes": [check.code for check in checks]}],
        "passedCodes": [],
        "readingCount": 0,
        "clocks": [],
        "reasons": dict.fromkeys(unknown, "NOT_READ"),
    }


def _clock_items(one: Diagnosis) -> list[dict[str, Any]]:
    """Make an item of each clock; an unknown bound is null."""
    return [
        {
            "kind": kind,
            "name": name,
            "skewLowMs": bounds.low_ms,
            "skewHighMs": bounds.high_ms,
            "reasons": {
                key: "NOT_REPORTED"
                for key, value in (("skewLowMs", bounds.low_ms), ("skewHighMs", bounds.high_ms))
                if value is None
            },
        }
        for (kind, name), bounds in one.facts.clocks.every().items()
    ]
