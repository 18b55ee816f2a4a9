"""Reads what mqadmin prints, for a second opinion."""

from __future__ import annotations

import re
from typing import NamedTuple


class ProgressRow(NamedTuple):
    """One row of consumerProgress."""

    topic: str
    broker_name: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    diff: int


def consumer_progress(printed: str) -> list[ProgressRow]:
    """Read the rows that `consumerProgress -g` prints, sorted."""
    rows = []
    for line in printed.splitlines():
        words = re.split(r"\s{2,}", line.strip())
        if len(words) >= 6 and words[2].isdigit():
            rows.append(ProgressRow(words[0], words[1], *map(int, words[2:6])))
    return sorted(rows)
