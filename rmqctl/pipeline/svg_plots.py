"""Inline SVG plots for a page: line, heat map, bars.

Colours are CSS classes of the page. `key` identifies a plot in its page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from rmqctl.text.times import iso_time

_WIDTH, _LEFT, _TOP, _BOTTOM = 640.0, 64.0, 8.0, 22.0
_PLOT = _WIDTH - _LEFT - 8
_HEIGHT, _BARS_HEIGHT, _ROW = 150.0, 60.0, 16.0
_STEPS = (("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))


def line_plot(
    key: str, title: str, starts_ms: Sequence[int], ends_ms: Sequence[int], values: Sequence[float | None]
) -> str:
    """Return a line through the values at the ends of windows, with gaps for unknown ones."""
    most = max((value for value in values if value is not None), default=0)
    axis = _Axis(starts_ms[0], ends_ms[-1])
    places = [
        None if value is None else (axis.x(at_ms), _y(value, most, _HEIGHT))
        for at_ms, value in zip(ends_ms, values, strict=True)
    ]
    shapes = []
    for run in _runs(places):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
        shapes.append(
            f'<polyline class="line" points="{points}"/>'
            if len(run) > 1
            else f'<circle class="dot" cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="2.5"/>'
        )
    shapes += [_level(value, _y(value, most, _HEIGHT)) for value in sorted({most, most / 2, 0}, reverse=True)]
    return _figure(key, title, _summary(ends_ms, values), [*shapes, axis.labels(_HEIGHT)], _HEIGHT + _TOP + _BOTTOM)


def bar_plot(key: str, title: str, starts_ms: Sequence[int], ends_ms: Sequence[int], values: Sequence[int]) -> str:
    """Return one bar per window."""
    most = max(values, default=0)
    axis = _Axis(starts_ms[0], ends_ms[-1])
    shapes = [_level(most, _TOP + 4), _level(0, _TOP + _BARS_HEIGHT)]
    for start_ms, end_ms, value in zip(starts_ms, ends_ms, values, strict=True):
        y = _y(value, most, _BARS_HEIGHT)
        shapes.append(
            f'<rect class="bar" x="{axis.x(start_ms) + 1:.1f}" y="{y:.1f}" width="{axis.width(start_ms, end_ms):.1f}"'
            f' height="{_TOP + _BARS_HEIGHT - y:.1f}"><title>{_clock(start_ms)} {value:,}</title></rect>'
        )
    return _figure(
        key, title, _summary(ends_ms, values), [*shapes, axis.labels(_BARS_HEIGHT)], _BARS_HEIGHT + _TOP + _BOTTOM
    )


def heat_plot(
    key: str, title: str, starts_ms: Sequence[int], ends_ms: Sequence[int],
    rows: Mapping[str, Sequence[tuple[int | None, str] | None]],
) -> str:  # fmt: skip
    """Return a heat map: one row per name, one cell (value, word) per window; darker is more, on a log scale.

    An unknown value has a dashed cell; a window without data has no cell.
    """
    every = [value[0] for cells in rows.values() for value in cells if value is not None and value[0] is not None]
    most = max(every, default=0)
    axis = _Axis(starts_ms[0], ends_ms[-1])
    shapes = []
    for number, (name, cells) in enumerate(rows.items()):
        y = _TOP + number * _ROW
        for start_ms, end_ms, cell in zip(starts_ms, ends_ms, cells, strict=True):
            if cell is None:
                continue
            value, word = cell
            said = "unknown" if value is None else f"{value:,}"
            look = 'class="blank"' if value is None else f'class="cell" fill-opacity="{_shade(value, most):.2f}"'
            shapes.append(
                f'<rect {look} x="{axis.x(start_ms) + 0.5:.1f}" y="{y:.1f}" height="{_ROW - 2:.1f}"'
                f' width="{axis.width(start_ms, end_ms):.1f}"><title>{html.escape(name)} {_clock(start_ms)}:'
                f" {said}, {html.escape(word)}</title></rect>"
            )
    height = _ROW * len(rows)
    names = [f"{number + 1}. {name}" for number, name in enumerate(rows)]
    shapes += [
        f'<text x="{_LEFT - 6:.0f}" y="{_TOP + number * _ROW + 11:.1f}" text-anchor="end">{number + 1}</text>'
        for number in range(len(rows))
    ]
    told = f"Rows from the top: {'; '.join(names)}. The maximum is {most:,}."
    shown = f"Queues: {'; '.join(names)}. Darkest: {most:,}; dashed: unknown."
    return _figure(key, title, told, [*shapes, axis.labels(height)], height + _TOP + _BOTTOM, shown)


class _Axis:
    """Time from left to right."""

    def __init__(self, start_ms: int, end_ms: int) -> None:
        self._start_ms, self._length_ms = start_ms, max(1, end_ms - start_ms)

    def x(self, at_ms: float) -> float:
        return _LEFT + _PLOT * (at_ms - self._start_ms) / self._length_ms

    def width(self, start_ms: int, end_ms: int) -> float:
        return max(0.5, self.x(end_ms) - self.x(start_ms) - 1)

    def labels(self, height: float) -> str:
        y = height + _TOP + 15
        marks = []
        for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
            at_ms = round(self._start_ms + share * self._length_ms)
            marks.append(f'<text x="{self.x(at_ms):.1f}" y="{y:.1f}" text-anchor="{anchor}">{_clock(at_ms)}</text>')
        return "".join(marks)


def _figure(key: str, title: str, told: str, shapes: Sequence[str], height: float, shown: str = "") -> str:
    caption = html.escape(f"{title}. {shown}" if shown else f"{title}.")
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" aria-labelledby="{key}t {key}d">'
        f'<title id="{key}t">{html.escape(title)}</title><desc id="{key}d">{html.escape(told)}</desc>'
        f"{''.join(shapes)}</svg><figcaption>{caption}</figcaption></figure>"
    )


def _level(value: float, y: float) -> str:
    return (
        f'<line class="axis" x1="{_LEFT:.0f}" x2="{_WIDTH - 8:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6:.0f}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>'
    )


def _y(value: float, most: float, height: float) -> float:
    return _TOP + height * (1 - (value / most if most else 0))


def _shade(value: float, most: float) -> float:
    """Return an opacity, from 0.06 for 0 to 1 for the maximum; a tenth of it is still visible."""
    return 0.06 + 0.94 * (math.log1p(value) / math.log1p(most) if most > 0 else 0)


def _runs(places: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """Return the runs of places between gaps."""
    runs: list[list[tuple[float, float]]] = [[]]
    for place in places:
        if place is None:
            runs.append([])
        else:
            runs[-1].append(place)
    return [run for run in runs if run]


def _short(value: float) -> str:
    for letter, size in reversed(_STEPS):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _clock(at_ms: int) -> str:
    iso = iso_time(at_ms) or ""
    return f"{iso[5:10]} {iso[11:16]}"


def _summary(ends_ms: Sequence[int], values: Sequence[float | None]) -> str:
    known = [(value, at_ms) for value, at_ms in zip(values, ends_ms, strict=True) if value is not None]
    if not known:
        return "All values are unknown."
    most, at_ms = max(known)
    gaps = f" {len(values) - len(known)} of {len(values)} are unknown." if len(known) < len(values) else ""
    return f"From {known[0][0]:,} to {known[-1][0]:,}, maximum {most:,} at {_clock(at_ms)} UTC.{gaps}"
