"""Texts that are not compared more often than they have to be."""

from __future__ import annotations


class Counted(str):
    """A text that tells how often it is compared, and ends what compares each with each."""

    __slots__ = ()
    count = 0

    def __eq__(self, other: object) -> bool:
        Counted.count += 1
        assert Counted.count < 10_000_000, "that many comparisons are each with each"
        return str.__eq__(self, other)

    __hash__ = str.__hash__
