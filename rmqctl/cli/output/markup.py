"""Tables as Markdown and HTML, to paste into a ticket or a wiki; tabulate is imported only for these."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tabulate import tabulate


def markup_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right_aligned: Sequence[bool], markup: str
) -> str:
    """Return rows of cells as a table of Markdown (GitHub's) or HTML; cells are escaped."""
    if markup == "markdown":
        rows = [[cell.replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in rows]
    text = tabulate(
        rows,
        headers=headings,
        tablefmt="pipe" if markup == "markdown" else "html",
        colalign=["right" if is_right else "left" for is_right in right_aligned],
        disable_numparse=True,
    )
    return f"{text}\n"


def markup_block(text: str, markup: str) -> str:
    """Return lines that are shown as they are."""
    return f"```\n{text}```\n" if markup == "markdown" else f"<pre>\n{escape(text)}</pre>\n"


def markup_heading(title: str, markup: str) -> str:
    """Return the title of a table."""
    return f"### {title}\n\n" if markup == "markdown" else f"<h3>{escape(title)}</h3>\n"
