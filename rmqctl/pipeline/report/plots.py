"""Plots over time as inline SVG for a page. Needs matplotlib."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from matplotlib import style
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Its notes on font caches are not for our users.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

_DAY_MS = 86_400_000
_WIDTH, _LINE_HEIGHT, _BARS_HEIGHT = 9.0, 2.0, 0.8  # inches
# matplotlib accepts no CSS: these colours and this font are replaced by those of the page.
_SOFT, _RULE, _LINE = "#010101", "#010102", "#010103"
_OF_PAGE = {
    _SOFT: "var(--soft)", _RULE: "var(--rule)", _LINE: "var(--line)", "'DejaVu Sans'": "system-ui, sans-serif",
}  # fmt: skip
_STYLE = {
    "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 9,
    "text.color": _SOFT, "xtick.color": _SOFT, "ytick.color": _SOFT, "axes.edgecolor": _RULE, "grid.color": _RULE,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "ytick.left": False,
    "axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True,
}  # fmt: skip
_BAR = re.compile(r'<g id="bar-(\d+)">')
# Ids that are the same in each figure and that nothing refers to, and the borders of axes, which nothing is outside of.
_NEEDLESS = re.compile(r' id="[\w.]+_\d+"| clip-path="[^"]*"')


def lag_plot(
    key: str, starts_ms: Sequence[int], ends_ms: Sequence[int], lag: Sequence[float | None],
    owner_changes: Sequence[int], titles: Sequence[str],
) -> tuple[str, Markup]:  # fmt: skip
    """Return the view box and the content of an SVG element: lag at the ends of windows, with gaps where it is unknown.

    When an owner changed, bars below it count the changes in each window, with `titles` as tooltips. `key` is
    different for each plot of a page.
    """
    has_bars = any(owner_changes)
    with style.context(["default", _STYLE | {"svg.hashsalt": key}]):
        figure = Figure((_WIDTH, _LINE_HEIGHT + _BARS_HEIGHT * has_bars), layout="constrained")
        ratios = (_LINE_HEIGHT, _BARS_HEIGHT)[: 1 + has_bars]
        axes: list[Axes] = list(figure.subplots(len(ratios), sharex=True, squeeze=False, height_ratios=ratios)[:, 0])
        values = [float("nan") if value is None else value for value in lag]
        axes[0].plot([at_ms / _DAY_MS for at_ms in ends_ms], values, color=_LINE, marker=".", clip_on=False)
        if has_bars:
            widths = [(end_ms - start_ms) * 0.95 / _DAY_MS for start_ms, end_ms in zip(starts_ms, ends_ms, strict=True)]
            lefts = [start_ms / _DAY_MS for start_ms in starts_ms]
            for number, bar in enumerate(axes[1].bar(lefts, owner_changes, widths, align="edge", color=_LINE)):
                bar.set_gid(f"bar-{number}")
        for each in axes:
            each.yaxis.set_major_locator(MaxNLocator(3, integer=True))
            each.yaxis.set_major_formatter(EngFormatter(sep=""))
            each.set_ylim(0, max(each.get_ylim()[1], 1))
        axes[-1].set_xlim(starts_ms[0] / _DAY_MS, ends_ms[-1] / _DAY_MS)
        locator = AutoDateLocator(UTC)
        axes[-1].xaxis.set_major_locator(locator)
        axes[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator, UTC))
        return _content(figure, titles)


def _content(figure: Figure, titles: Sequence[str]) -> tuple[str, Markup]:
    out = io.StringIO()
    nothing: Any = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    head, _, body = out.getvalue().partition('<g id="figure_1">')
    box = re.search(r'viewBox="([^"]+)"', head)
    assert box is not None  # noqa: S101 -- as matplotlib writes it
    for own, ours in _OF_PAGE.items():
        body = body.replace(own, ours)
    body = _BAR.sub(lambda match: f"<g><title>{escape(titles[int(match[1])])}</title>", body)
    return box[1], Markup("<g>" + _NEEDLESS.sub("", body.removesuffix("</svg>\n")))  # noqa: S704 -- only titles are text
