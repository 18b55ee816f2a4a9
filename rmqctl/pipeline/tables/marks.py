"""Marks of the table offset_snapshots: numbers that commits of snapshots leave."""

from __future__ import annotations

from collections.abc import Iterable

from .delta import TableVersion


def whole_mark(label: str) -> str:
    """Return the name of the mark with the time, in epoch ms, when the last complete snapshot of a cluster began."""
    return f"whole snapshot of {label}"


def whole_times_ms(version: TableVersion, labels: Iterable[str], until_ms: int) -> dict[str, int]:
    """Return by cluster when its last complete snapshot began, in epoch ms; without those at until_ms or later."""
    times_ms = {label: version.mark(whole_mark(label)) for label in labels}
    return {label: at_ms for label, at_ms in times_ms.items() if at_ms is not None and at_ms < until_ms}
