"""Sums over reports: exact when all parts are known, else a lower bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct


class Total(Struct, frozen=True):
    """A sum. An unknown part leaves `value` unset, with a `reason`; `at_least` sums the known parts."""

    value: int | None
    at_least: int
    reason: str | None


def total(parts: Iterable[tuple[int | None, str]], *, hidden: str | None = None, nothing: str | None = None) -> Total:
    """Sum up parts; each has a reason, which counts if the part is unknown (None).

    `hidden` says why there may be further parts that were not seen; `nothing` says why a sum without parts is unknown.
    """
    every = list(parts)
    unknown = Counter(reason for count, reason in every if count is None)
    at_least = sum(count or 0 for count, _ in every)
    reason = hidden or next((reason for reason, _ in unknown.most_common(1)), None if every else nothing)
    return Total(at_least if reason is None else None, at_least, reason)
