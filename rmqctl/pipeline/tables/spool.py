"""Rows that wait on disk until they are committed, so that memory holds only a part of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa


class RowSpool:
    """A temporary file of rows; a block that deletes it at its end. Rows are read only after the last was added."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._folder = tempfile.TemporaryDirectory(prefix="rmqctl-rows-")
        self._path = Path(self._folder.name, "rows.arrow")
        self._writer = pa.ipc.new_file(str(self._path), schema)
        self.row_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.close()
        self._folder.cleanup()

    def add(self, rows: pa.Table) -> None:
        """Add rows, which have the schema's columns."""
        self._writer.write_table(rows.select(self._schema.names))
        self.row_count += rows.num_rows

    def reader(self) -> pa.RecordBatchReader:
        """Return all rows from the beginning; possible several times."""
        self._writer.close()
        file = pa.ipc.open_file(pa.memory_map(str(self._path)))
        batches = (file.get_batch(number) for number in range(file.num_record_batches))
        return pa.RecordBatchReader.from_batches(self._schema, batches)
