"""JSON items for findings of `rmqctl diagnose`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmqctl.text.times import time_fields
from rmqctl.text.words import counted

if TYPE_CHECKING:
    from rmqctl.diagnose.finding import Finding


def finding_item(finding: Finding, read_at_ms: int) -> dict[str, Any]:
    """Make the item of one finding; evidence without its own time has that of the reading."""
    symptom = finding.symptom
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "topic": symptom.topic,
        "sentence": symptom.sentence,
        "nextCommand": symptom.next_command,
        "isConfirmed": finding.is_confirmed,
        "reasons": ({"topic": "WHOLE_GROUP"} if symptom.topic is None else {})
        | ({"nextCommand": "NONE_NEEDED"} if symptom.next_command is None else {}),
        "evidence": [
            {
                "name": fact.name,
                "value": fact.value,
                "reportedBy": fact.reported_by,
                **time_fields("timestamp", at_ms),
            }
            for fact in symptom.evidence
            for at_ms in [read_at_ms if fact.at_ms is None else fact.at_ms]
        ],
    }


def merge_items(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of a table: a fact about a broker is one row, with the number of groups that it concerns."""
    from rmqctl.diagnose.finding import fact_key

    alike: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for item in items:
        key = fact_key(*(item[name] for name in ("code", "severity", "sentence", "nextCommand", "group")))
        alike.setdefault(key, []).append(item)
    return [each[0] if len(each) == 1 else {**each[0], "group": counted(len(each), "group")} for each in alike.values()]
