"""Text in an exact number of terminal cells."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def cut(text: str, width: int) -> str:
    """Return a text in exactly `width` cells; the middle of a longer one is left out, because ends of names differ."""
    if cell_len(text) > width > 1:
        text = f"{set_cell_size(text, (width - 1) - (width - 1) // 2)}…{text[-((width - 1) // 2) :]}"
    return set_cell_size(text, width)
