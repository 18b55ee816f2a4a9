"""Numbers for the names of Arrow tables, to sort and group rows by them in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes: TypeAlias = NDArray[np.int64]


def row_codes(table: pa.Table, *columns: str) -> Codes:
    """Return a number for each row: equal where all columns are, null equals null. Columns are names or integers."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in columns:
        column = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
    return codes
