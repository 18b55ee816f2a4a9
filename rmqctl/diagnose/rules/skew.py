"""Finds outliers among the parts of a whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median_low
from typing import TypeVar

_T = TypeVar("_T")


def find_outliers(amounts: Mapping[_T, float], *, factor: float, least: float) -> list[_T]:
    """Return the parts that have at least `least`, and at least `factor` times the mean of all others.

    Returns the largest first, and an empty list for a single part.
    """
    total, others = sum(amounts.values()), len(amounts) - 1
    found = [
        part
        for part, amount in amounts.items()
        if others and amount >= least and amount >= factor * (total - amount) / others
    ]
    return sorted(found, key=lambda part: -amounts[part])


def medians_by(groups: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the lower median of each group: a single large value does not move it."""
    return {name: median_low(values) for name, values in groups.items() if values}
