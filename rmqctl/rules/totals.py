"""Sums over what was read: exact where all of it was read, at least what is known elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct


class Total(Struct, frozen=True):
    """A sum. `value` is None where a part of it is not known, for `reason`; `at_least` sums the rest."""

    value: int | None
    at_least: int
    reason: str | None


def total(parts: Iterable[tuple[int | None, str]], *, hidden: str | None = None, nothing: str | None = None) -> Total:
    """Sum up parts, each with the reason why it is not known where it is None.

    `hidden` is why there may be parts that nobody knows of; `nothing` why a sum of no parts at all is not known.
    """
    every = list(parts)
    unknown = Counter(reason for count, reason in every if count is None)
    at_least = sum(count or 0 for count, _ in every)
    reason = hidden or next((reason for reason, _ in unknown.most_common(1)), None if every else nothing)
    return Total(at_least if reason is None else None, at_least, reason)
