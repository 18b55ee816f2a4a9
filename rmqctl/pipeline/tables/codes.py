"""Numbers for the names and times of Arrow tables, to sort and group rows by them in NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes: TypeAlias = NDArray[np.int64]


_US_PER_MS = 1000


def row_codes(table: pa.Table, *columns: str) -> Codes:
    """Return a number for each row: equal where all columns are, null equals null. Columns are names or integers."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in columns:
        column = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
    return codes


def epoch_ms(column: pa.ChunkedArray | pa.Array) -> Any:
    """Return an Arrow column of times, which tables have in microseconds, in epoch ms."""
    return pc.divide(column.cast(pa.int64()), _US_PER_MS)


def name_parts(counts: Mapping[str, float], most: float) -> Iterator[tuple[str, ...]]:
    """Divide names by their numbers of rows: a part has at most `most` rows, or one name."""
    part: list[str] = []
    row_count = 0.0
    for name, count in counts.items():
        if part and row_count + count > most:
            yield tuple(part)
            part, row_count = [], 0.0
        part.append(name)
        row_count += count
    if part:
        yield tuple(part)
