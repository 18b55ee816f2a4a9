"""Moves tables of earlier versions, Parquet in folders like dt=2026-11-22/hr=10/part=ID, into Delta tables.

The new table is one commit in the same folder, so that it is there completely or not at all. The old files stay until
they are cleaned up like all files that no version names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rmqctl.errors import RmqctlError

from .delta import Table, TableChange, has_old_layout, stored_files
from .schemas import OFFSET_SNAPSHOTS, arrow_schema
from .spool import RowSpool

# The columns of a row of offset_snapshots that no two rows have in common. An interrupted compaction left some rows in
# two files; where they differ, those outside of the part `merged` are newer.
_KEYS = ("run_id", "consumer_group", "topic", "broker_name", "queue_id")
_MERGED = "merged"
_RANK = "is_merged"


class Migration(NamedTuple):
    """A migrated table: its old files, the rows of the new table, and rows that were in two files."""

    file_count: int
    row_count: int
    repeated_count: int


class _OldFile(NamedTuple):
    path: str
    values: Mapping[str, str]


def migrate(folder: str, name: str, label: str) -> Migration | None:
    """Move a table; its rows get the label. Return None when it has no old layout.

    Raises RmqctlError, and leaves everything as it was, when a file cannot be read.
    """
    table = Table(folder, name, may_be_old=True)
    if not has_old_layout(table.root):
        return None
    storage, found = stored_files(table.root)
    old = list(_old_files(found))
    by_day: defaultdict[str, list[_OldFile]] = defaultdict(list)
    for file in old:
        by_day[file.values["dt"]].append(file)
    read_count = 0
    # Not as a stream into the writer: an error would reach us as a text, and the writer cannot read from a store.
    with RowSpool(arrow_schema(name)) as spool:
        for _, of_day in sorted(by_day.items()):
            rows = pa.concat_tables(_read(storage, each, name, label) for each in of_day)
            read_count += rows.num_rows
            spool.add(_once_each(rows) if name == OFFSET_SNAPSHOTS else rows)
        table.change(lambda version: TableChange(spool.reader()) if version is None else None)
        return Migration(len(old), spool.row_count, read_count - spool.row_count)


def _read(storage: Any, file: _OldFile, name: str, label: str) -> pa.Table:
    schema = arrow_schema(name)
    try:
        with storage.open_input_file(file.path) as source:
            rows = pq.ParquetFile(source).read()
        given = {**file.values, "cluster_label": label}
        columns = [_column(rows, field, given) for field in schema]
    except (pa.ArrowException, OSError, ValueError) as error:
        said = " ".join(str(error).split())[:300].rstrip(".")
        raise RmqctlError(f"Cannot read {file.path}: {said}.") from error
    found = pa.Table.from_arrays(columns, schema=schema)
    return found.append_column(_RANK, pa.array([file.values.get("part") == _MERGED] * rows.num_rows, pa.bool_()))


def _old_files(found: Iterable[Any]) -> Iterator[_OldFile]:
    for info in found:
        *folders, name = info.path.split("/")
        if info.is_file and name.endswith(".parquet") and not any(each.startswith(("_", ".")) for each in folders):
            named = (folder.split("=", 1) for folder in folders if "=" in folder)
            values = {key: unquote(value) for key, value in named}
            if {"dt", "hr"} <= values.keys():
                yield _OldFile(info.path, values)


def _column(rows: pa.Table, field: pa.Field, given: Mapping[str, str]) -> pa.ChunkedArray | pa.Array:
    if field.name in given:
        return pa.repeat(pa.scalar(given[field.name]).cast(field.type), rows.num_rows)
    if field.name in rows.column_names:
        return rows.column(field.name).cast(field.type)
    return pa.nulls(rows.num_rows, field.type)


def _once_each(rows: pa.Table) -> pa.Table:
    """Return one row for each of _KEYS, the newer one."""
    ordered = rows.sort_by([(name, "ascending") for name in (*_KEYS, _RANK)])
    if ordered.num_rows < 2:
        return ordered
    is_same = None
    for name in _KEYS:
        column = ordered.column(name).combine_chunks()
        equal = pc.fill_null(pc.equal(column[1:], column[:-1]), False)
        is_same = equal if is_same is None else pc.and_(is_same, equal)
    return ordered.filter(pa.concat_arrays([pa.array([True]), pc.invert(is_same)]))
