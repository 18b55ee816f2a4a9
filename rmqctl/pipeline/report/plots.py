"""Plots over time as inline SVG for a page. Needs matplotlib."""

from __future__ import annotations

import io
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from matplotlib import style
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from rmqctl.text.words import counted

from .lag_series import LagPoint, LagWindow, clock

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

# Its notes on font caches are not for our users.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

_DAY_MS = 86_400_000
_WIDTH, _LINE_HEIGHT, _BARS_HEIGHT = 9.0, 2.0, 0.8  # inches
# Up to this number of snapshots, each has a dot.
_MARKED = 100
# The share of the width that a band needs for its name.
_LEAST_NAMED = 0.1
# Marks are at least this part of the width apart.
_PLACES = 200
# matplotlib accepts no CSS: these colours and this font are replaced by those of the page.
_SOFT, _RULE, _LINE, _BAD, _WARN, _NONE = (f"#01010{number}" for number in range(1, 7))
_OF_PAGE = {
    _SOFT: "var(--soft)", _RULE: "var(--rule)", _LINE: "var(--line)", _BAD: "var(--bad)", _WARN: "var(--warn)",
    _NONE: "var(--none)", "'DejaVu Sans'": "system-ui, sans-serif",
}  # fmt: skip
_OF_HEALTH = {"REWIND": _BAD, "STOP": _BAD, "STALL": _BAD, "WARN": _WARN}
_STYLE = {
    "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 10,
    "text.color": _SOFT, "xtick.color": _SOFT, "ytick.color": _SOFT, "axes.edgecolor": _RULE, "grid.color": _RULE,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "ytick.left": False,
    "axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True,
}  # fmt: skip
_TITLED = re.compile(r'<g id="titled-(\d+)">')
# Ids that are the same in each figure and that nothing refers to, and the borders of axes, which nothing is outside of.
_NEEDLESS = re.compile(r' id="[\w.]+_\d+"| clip-path="[^"]*"')


def lag_plot(key: str, points: Sequence[LagPoint], windows: Sequence[LagWindow]) -> tuple[str, Markup]:
    """Return the view box and the content of an SVG element: the lag at each snapshot, with gaps where it is unknown.

    Behind it are bands for windows in which the group was not OK, and lines where offsets were set back; below it, when
    owners changed, bars count the changes. Each has a tooltip. `key` is different for each plot of a page.
    """
    since_ms, until_ms = min(windows[0].start_ms, points[0].at_ms), max(windows[-1].end_ms, points[-1].at_ms + 1)
    resets = _placed([(point.at_ms, point.set_back_count) for point in points], since_ms, until_ms)
    changes = _placed([(point.at_ms, point.owner_change_count) for point in points], since_ms, until_ms)
    titles: list[str] = []

    def titled(artist: Artist, title: str) -> None:
        artist.set_gid(f"titled-{len(titles)}")
        titles.append(title)

    with style.context(["default", _STYLE | {"svg.hashsalt": key}]):
        figure = Figure((_WIDTH, _LINE_HEIGHT + _BARS_HEIGHT * bool(changes)), layout="constrained")
        ratios = (_LINE_HEIGHT, _BARS_HEIGHT)[: 1 + bool(changes)]
        axes: list[Axes] = list(figure.subplots(len(ratios), sharex=True, squeeze=False, height_ratios=ratios)[:, 0])
        axes[-1].set_xlim(since_ms / _DAY_MS, until_ms / _DAY_MS)
        for band in _bands(windows):
            colour = _OF_HEALTH.get(band.health, _NONE)
            shape = axes[0].axvspan(band.start_ms / _DAY_MS, band.end_ms / _DAY_MS, color=colour, alpha=0.16, lw=0)
            titled(shape, f"{band.health} {clock(band.start_ms)} to {clock(band.end_ms)}")
            if band.end_ms - band.start_ms >= (until_ms - since_ms) * _LEAST_NAMED:
                axes[0].text(
                    band.start_ms / _DAY_MS, 0.97, f" {band.health}", color=colour, weight="bold", va="top",
                    transform=axes[0].get_xaxis_transform(),
                )  # fmt: skip
        for at_ms, count in resets.items():
            line = axes[0].axvline(at_ms / _DAY_MS, color=_BAD, linestyle=(0, (3, 2)), linewidth=1.2)
            titled(line, f"{clock(at_ms)} offset set back: {counted(count, 'queue')}")
        values = [float("nan") if point.lag is None else point.lag for point in points]
        is_sparse = len(points) <= _MARKED
        marked = [number for number, value in enumerate(values) if is_sparse or _is_lonely(values, number)]
        at_days = [point.at_ms / _DAY_MS for point in points]
        axes[0].plot(at_days, values, color=_LINE, linewidth=1.5, marker=".", markevery=marked, clip_on=False)
        if changes:
            width = (until_ms - since_ms) / _PLACES / _DAY_MS
            bars = axes[1].bar([at_ms / _DAY_MS for at_ms in changes], list(changes.values()), width, color=_LINE)
            for (at_ms, count), bar in zip(changes.items(), bars, strict=True):
                titled(bar, f"{clock(at_ms)} {counted(count, 'change')} of owners")
        for each in axes:
            each.yaxis.set_major_locator(MaxNLocator(3, integer=True))
            each.yaxis.set_major_formatter(EngFormatter(sep=""))
            each.set_ylim(0, max(each.get_ylim()[1], 1))
        locator = AutoDateLocator(UTC)
        axes[-1].xaxis.set_major_locator(locator)
        axes[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator, UTC))
        return _content(figure, titles)


def _bands(windows: Sequence[LagWindow]) -> list[LagWindow]:
    """Return windows that were not OK; adjacent ones of one health are one."""
    bands: list[LagWindow] = []
    for window in windows:
        if bands and (bands[-1].end_ms, bands[-1].health) == (window.start_ms, window.health):
            bands[-1] = bands[-1]._replace(end_ms=window.end_ms)
        else:
            bands.append(window)
    return [band for band in bands if band.health != "OK"]


def _placed(counts: Iterable[tuple[int, int]], since_ms: int, until_ms: int) -> dict[int, int]:
    """Return counts by their times, without those of 0; those too near to see apart are summed up at the first."""
    first_ms: dict[int, int] = {}
    sums: Counter[int] = Counter()
    for at_ms, count in counts:
        if count:
            place = (at_ms - since_ms) * _PLACES // (until_ms - since_ms)
            sums[first_ms.setdefault(place, at_ms)] += count
    return dict(sums)


def _is_lonely(values: Sequence[float], number: int) -> bool:
    """Return whether both neighbours are unknown: no line shows this value."""
    around = (*values[max(0, number - 1) : number], *values[number + 1 : number + 2])
    return all(math.isnan(value) for value in around)


def _content(figure: Figure, titles: Sequence[str]) -> tuple[str, Markup]:
    out = io.StringIO()
    nothing: Any = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    head, _, body = out.getvalue().partition('<g id="figure_1">')
    box = re.search(r'viewBox="([^"]+)"', head)
    assert box is not None  # noqa: S101 -- as matplotlib writes it
    for own, ours in _OF_PAGE.items():
        body = body.replace(own, ours)
    body = _TITLED.sub(lambda match: f"<g><title>{escape(titles[int(match[1])])}</title>", body)
    return box[1], Markup("<g>" + _NEEDLESS.sub("", body.removesuffix("</svg>\n")))  # noqa: S704 -- only titles are text
