"""The timeline of rmqctl whatif churn: clients down, time across, in each cell a number of queues."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace
from rich.cells import cell_len

from rmqctl.cli.globals import MARKUPS
from rmqctl.cli.output.cells import cut
from rmqctl.cli.output.display import Display
from rmqctl.cli.output.listing import Item, Listing
from rmqctl.cli.output.markup import markup_block
from rmqctl.cli.output.render import compose
from rmqctl.cli.output.text import printable
from rmqctl.text.durations import exact_duration, short_duration
from rmqctl.text.words import counted
from rmqctl.whatif.churn.group import ChurnGroup
from rmqctl.whatif.churn.runs import track_run
from rmqctl.whatif.churn.story import Story
from rmqctl.whatif.churn.sweep import SweepChoice
from rmqctl.whatif.churn.timeline import Timeline, make_timeline, round_part_ms

from .churn_sweep import COST_COLUMNS, cost_items, sweep_words
from .churn_table import show_protection

_IDLE, _AWAY = "·", "x"
_LEGEND = """\
A cell is the average number of queues of a client, at least 1; the last two
rows count queues with two owners, and with none.
· a client without a queue, x cut off or down, blank: not running"""
PARTS = 120
"""Parts of a timeline in JSON and on a page, at most."""
_LEAST_PARTS = 10
_LEAST_NAME = 12
_MOST_CLIENTS = 20
# Blanks between two labels of the time.
_GAP = 2


class Drawing:
    """The first run with one protection time, drawn with parts of any length."""

    def __init__(self, group: ChurnGroup, story: Story, protection_ms: int, seed: int) -> None:
        self.protection_ms = protection_ms
        self.seed = seed
        self.for_ms = story.for_ms
        self._changes = story.changes_of(seed)
        self._client_ids = group.client_ids
        self._track = track_run(group, self._changes, protection_ms=protection_ms, for_ms=self.for_ms, seed=seed)

    @property
    def title(self) -> str:
        """Return what it shows."""
        return f"Protection {exact_duration(self.protection_ms)}" if self.protection_ms else "Without protection"

    def timeline(self, part_ms: int) -> Timeline:
        """Return the timeline in parts of this length."""
        return make_timeline(self._track, self._changes, self._client_ids, for_ms=self.for_ms, part_ms=part_ms)


class RowKind(StrEnum):
    """What a row shows."""

    CLIENT = "client"
    BROKER = "broker"
    SHARED = "two-owners"
    UNOWNED = "no-owner"


class TimelineRow(NamedTuple):
    """A client, a broker that stopped, or all queues, by part of the time.

    `counts` are numbers of queues, None where there is nothing to show. `is_away`: cut off, or down.
    """

    kind: RowKind
    name: str
    counts: Sequence[float | None]
    is_away: Sequence[bool]


def timeline_rows(timeline: Timeline, most_clients: int) -> list[TimelineRow]:
    """Return the rows, of clients only the busiest."""
    present = [False] * len(timeline.shared)
    rows = [
        TimelineRow(RowKind.CLIENT, " ".join(row.client_id.splitlines()), row.queues, row.is_cut)
        for row in timeline.busiest(most_clients)
    ]
    for name, parts in timeline.is_down.items():
        rows.append(TimelineRow(RowKind.BROKER, name, [0 if is_down else None for is_down in parts], parts))
    rows.append(TimelineRow(RowKind.SHARED, "TWO-OWNERS", [count or None for count in timeline.shared], present))
    rows.append(TimelineRow(RowKind.UNOWNED, "NO-OWNER", [count or None for count in timeline.unowned], present))
    return rows


def timeline_text(drawing: Drawing, width: int) -> str:
    """Return a timeline in at most `width` columns, if the numbers allow."""
    names = [row.name for row in timeline_rows(drawing.timeline(drawing.for_ms), _MOST_CLIENTS)]
    name_width = min(max(map(cell_len, names)), max(_LEAST_NAME, width // 3))
    room, cell_width = width - name_width - _GAP, 1
    while True:
        part_ms = round_part_ms(drawing.for_ms, max(_LEAST_PARTS, room // cell_width))
        timeline = drawing.timeline(part_ms)
        rows = [(row.name, list(map(_cell, row.counts, row.is_away))) for row in timeline_rows(timeline, _MOST_CLIENTS)]
        longest = max(len(cell) for _, cells in rows for cell in cells)
        needed = longest if longest == 1 else longest + 1
        if needed <= cell_width:
            break
        cell_width = needed
    lines = [
        f"{drawing.title}, seed {drawing.seed}",
        f"{'':{name_width + _GAP}}{_labels(len(timeline.shared), part_ms, cell_width)}",
    ]
    lines += [
        f"{cut(name, name_width)}{'':{_GAP}}{''.join(f'{cell:<{cell_width}}' for cell in cells)}"
        for name, cells in rows
    ]
    more_count = len(timeline.clients) - _MOST_CLIENTS
    if more_count > 0:
        lines.insert(-2, f"and {counted(more_count, 'more client')}")
    return "".join(f"{line.rstrip()}\n" for line in lines)


def churn_below(choice: SweepChoice | None, drawings: Sequence[Drawing], display: Display) -> str:
    """Return what is below the table: the choice of a sweep with its costs, and timelines."""
    width = shutil.get_terminal_size().columns
    parts = []
    if choice is not None:
        words = sweep_words(choice)
        parts.append(_block(textwrap.fill(words, width) if sys.stdout.isatty() else words, display))
        if choice.costs:
            costs = Listing(kind="ChurnList", columns=COST_COLUMNS, items=cost_items(choice), name=show_protection)
            parts.append(compose(costs, replace(display, columns=(), conditions=(), sort_keys=())))
    parts += [_block(timeline_text(drawing, width), display) for drawing in drawings]
    if drawings:
        parts.append(_block(_LEGEND, display))
    return "".join(f"\n{part}" for part in parts)


def _block(text: str, display: Display) -> str:
    text = "".join(f"{printable(line)}\n" for line in text.splitlines())
    return markup_block(text, display.format) if display.format in MARKUPS else text


def timeline_item(drawing: Drawing) -> Item:
    """Return a timeline by the keys of ChurnList.json."""
    timeline = drawing.timeline(round_part_ms(drawing.for_ms, PARTS))
    return {
        "protectMs": drawing.protection_ms,
        "partMs": timeline.part_ms,
        "clients": [
            {"clientId": row.client_id, "queueCounts": _rounded(row.queues), "isCut": list(row.is_cut)}
            for row in timeline.clients
        ],
        "sharedCounts": _rounded(timeline.shared),
        "unownedCounts": _rounded(timeline.unowned),
        "brokers": [{"brokerName": name, "isDown": list(parts)} for name, parts in timeline.is_down.items()],
    }


def _cell(count: float | None, is_away: bool) -> str:
    if count is None:
        return ""
    return str(max(1, round(count))) if count else _AWAY if is_away else _IDLE


def _labels(part_count: int, part_ms: int, cell_width: int) -> str:
    """Return the times at which parts begin, each above its part, as many as have room."""
    labels = [short_duration(number * part_ms) for number in range(part_count)]
    room = max(map(len, labels)) + _GAP
    step = next(step for step in (1, 2, 5, 10, 20, 50, room) if step * cell_width >= room)
    return "".join(f"{label:<{step * cell_width}}" for label in labels[::step])


def _rounded(counts: Sequence[float | None]) -> list[float | None]:
    return [None if count is None else round(count, 2) for count in counts]
