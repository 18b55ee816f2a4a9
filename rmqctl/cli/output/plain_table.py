"""Tables for pipes: plain, full width, nothing cut or wrapped.

tabulate is not used, because importing it takes a fifth of the run time of `offset show`.
"""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import east_asian_width

_GAP = "  "


def plain_table(rows: Sequence[Sequence[str]], right_aligned: Sequence[bool]) -> str:
    """Return rows of cells as aligned lines, with two blanks between columns and none at the end."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for cell, width, is_right in zip(row, widths, right_aligned, strict=True):
            blanks = " " * (width - _width(cell))
            cells.append(blanks + cell if is_right else cell + blanks)
        lines.append(_GAP.join(cells).rstrip())
    return "".join(f"{line}\n" for line in lines)


def _width(text: str) -> int:
    """Count terminal columns: two for wide and full-width letters."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
