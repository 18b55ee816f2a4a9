"""Times of tables and their notes in the zone of this machine (--local). Documents keep UTC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

# What text.times.iso_time() writes, whole or without ms.
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")


def local_text(text: str) -> str:
    """Return a sentence with every time in UTC replaced by the local time with its offset."""
    return _UTC.sub(lambda match: _local(match.group()), text)


def local_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item with the times under its keys that end with Iso as local times, also in nested values.

    Other values are not touched: a body or key with a time is shown as it is stored.
    """
    return {key: _local_value(key, value) for key, value in item.items()}


def _local_value(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return local_text(value) if key.endswith("Iso") else value
    if isinstance(value, Mapping):
        return local_item(value)
    if isinstance(value, (list, tuple)):
        return [_local_value(key, each) for each in value]
    return value


def _local(utc: str) -> str:
    try:
        at = datetime.fromisoformat(utc).astimezone()
    except (OverflowError, ValueError, OSError):  # the platform cannot convert this year
        return utc
    return at.isoformat(timespec="milliseconds" if "." in utc else "seconds")
