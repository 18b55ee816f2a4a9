"""From rows of offset_snapshots to facts per queue and window, and to rows of the table lag_trend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqctl.pipeline.tables.hours import day_of
from rmqctl.pipeline.tables.schemas import LAG_TREND, arrow_schema

from .queue_windows import MADE, facts_of

if TYPE_CHECKING:
    from .queue_windows import Windows

_TIMES = {"window_start": "window_start_ms", "window_end": "window_end_ms", "still_from_ts": "still_from_ms"}
_MS_PER_S, _DAY_MS = 1000, 86_400_000


def window_facts(tables: Iterable[pa.Table], windows: Windows, names: Sequence[str] = MADE) -> Iterator[pa.Table]:
    """Yield one row per queue and window, with these columns of queue_windows.MADE.

    Each table has all rows of a queue in its windows.
    """
    for table in tables:
        if table.num_rows:
            yield facts_of(table, windows, names)


def trend_rows(tables: Iterable[pa.Table], windows: Windows) -> Iterator[pa.Table]:
    """Yield the rows of the table lag_trend, from tables as window_facts() takes them."""
    schema = arrow_schema(LAG_TREND)
    names = [*_TIMES.values(), *(name for name in schema.names if name not in (*_TIMES, "window_s", "dt"))]
    for facts in window_facts(tables, windows, names):
        days, of = np.unique(facts.column("window_start_ms").to_numpy() // _DAY_MS, return_inverse=True)
        made = {name: facts.column(source).cast(pa.timestamp("ms", "UTC")) for name, source in _TIMES.items()}
        made["window_s"] = pa.array(np.full(len(of), windows.length_ms // _MS_PER_S))
        made["dt"] = pa.array([day_of(int(day) * _DAY_MS) for day in days], pa.string()).take(pa.array(of))
        columns = [made[name] if name in made else facts.column(name) for name in schema.names]
        yield pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema)
