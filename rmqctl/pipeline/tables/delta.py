"""Tables of the pipeline as Delta tables: pinned versions, conditional changes, compaction. Needs no Spark.

A table is a folder or URI with Parquet files and a log of commits. A reader opens one version and reads exactly its
files, whatever others write meanwhile. A writer looks at a version and commits only if no other commit that concerns
its rows came in between; otherwise it looks again. A process that is killed leaves the last version as it was, and
files that no version names, which the vacuum deletes.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rmqctl.errors import RmqctlError, UsageError

from .schemas import TIMES, arrow_schema, table_path

if TYPE_CHECKING:
    from deltalake import DeltaTable

T = TypeVar("T")

# A conflict is an answer within milliseconds, so that even many writers of one table all have their turn.
_ATTEMPTS = 100
_MOST_PAUSE_S = 0.5
_FIRST_PAUSE_S = 0.02
_PARTITIONS = ["dt"]
# Each writer lists the log's files. Delta keeps those of 30 days, which is tens of thousands with a snapshot every few
# minutes. They are needed only to read a version of that age, and by a job that has run since.
_PROPERTIES = {"delta.logRetentionDuration": "interval 1 days"}
_LOG = "_delta_log"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Documents of a store's answer, and lists of all that would be possible.
_DETAIL = re.compile(r"<\?xml.*| Known schemes: .*")
_MOST_REASON = 300
# Delta's own libraries decode %XX in local paths, and Spark takes the others as patterns.
_UNSUPPORTED = "%*?[]{}"


class TableChange(NamedTuple):
    """Rows to add: an Arrow table, or anything with an Arrow stream that can be read again after a conflict.

    `replaces` is an SQL condition: all rows that it selects are replaced, and each new row satisfies it. `marks` are
    numbers by name that this version has instead of earlier ones.
    """

    rows: Any
    replaces: str | None = None
    marks: Mapping[str, int] = {}


class TableFile(NamedTuple):
    """A file of a version: its full path, its rows, and the first and last time in it; None means unknown."""

    path: str
    row_count: int | None
    size_bytes: int
    day: str
    first_ms: int | None
    last_ms: int | None


class TableVersion:
    """One version of a table. It does not change, whatever others write."""

    def __init__(self, table: DeltaTable, name: str, root: str) -> None:
        self.name, self.root = name, root
        self.number = table.version()
        self._table = table

    @cached_property
    def files(self) -> list[TableFile]:
        """The files, those with the newest rows first."""
        found = self._table.get_add_actions(flatten=True)
        names = set(found.column_names)

        def column(name: str) -> list[Any]:
            return list(found.column(name).to_pylist()) if name in names else [None] * found.num_rows

        times = (column(f"{end}.{TIMES[self.name]}") for end in ("min", "max"))
        named = (column(name) for name in ("path", "num_records", "size_bytes", "partition.dt"))
        files = [
            TableFile(f"{self.root}/{path}", count, size, day, _epoch_ms(first), _epoch_ms(last))
            for path, count, size, day, first, last in zip(*named, *times, strict=True)
        ]
        return sorted(files, key=lambda file: (-(2**63) if file.last_ms is None else -file.last_ms, file.path))

    def files_between(self, since_ms: int, until_ms: int) -> list[TableFile]:
        """Return the files that can have rows from since_ms (inclusive) to until_ms (exclusive)."""
        return [
            file
            for file in self.files
            if (file.first_ms is None or file.first_ms < until_ms)
            and (file.last_ms is None or file.last_ms >= since_ms)
        ]

    def rows(self, columns: Sequence[str], where: str | None = None) -> Iterator[tuple[Any, ...]]:
        """Yield some columns of the rows that satisfy an SQL condition; None for a column that the table lacks."""
        for batch in self.batches(columns, where):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def batches(self, columns: Sequence[str], where: str | None = None) -> Iterator[Any]:
        """Yield some columns of the rows that satisfy an SQL condition as Arrow batches with the table's own types.

        A column that the table lacks is null.
        """
        import pyarrow as pa

        schema = arrow_schema(self.name, columns)
        with explained("read", self.root):
            for batch in self._scan(columns, where):
                yield pa.record_batch(_in_schema(batch, schema), schema)

    def arrow(self, columns: Sequence[str], where: str | None = None) -> Any:
        """Return the rows of batches() as one Arrow table."""
        import pyarrow as pa

        schema = arrow_schema(self.name, columns)
        with explained("read", self.root):
            rows = self._scan(columns, where).read_all()
            return pa.table(_in_schema(rows, schema), schema).combine_chunks()

    def _scan(self, columns: Sequence[str], where: str | None) -> Any:
        import pyarrow as pa

        known = {field.name for field in self._table.schema().fields}
        return pa.RecordBatchReader.from_stream(self._table.scan([name for name in columns if name in known], where))

    def values(self, column: str, where: str | None = None) -> set[Any]:
        """Return the distinct values of a column in the rows that satisfy an SQL condition."""
        return {value for (value,) in self.rows([column], where)}

    def mark(self, name: str) -> int | None:
        """Return the number of a mark that a change has left (see Table.change), None without one."""
        with explained("read", self.root):
            return self._table.transaction_version(name)


class Table:
    """A table in a folder; it exists after the first change. With `may_be_old`, the folder can have the old layout."""

    def __init__(self, folder: str | None, name: str, *, may_be_old: bool = False) -> None:
        self.name = name
        self.root = location(table_path(folder, name))
        self._may_be_old = may_be_old

    def version(self) -> TableVersion | None:
        """Return the current version, None when the table does not exist. Raises RmqctlError when it cannot be read."""
        return self._version(self._open())

    def _version(self, table: DeltaTable | None) -> TableVersion | None:
        return None if table is None else TableVersion(table, self.name, self.root)

    def change(self, plan: Callable[[TableVersion | None], TableChange | None], *, writer: str | None = None) -> bool:
        """Commit what `plan` returns for the current version; return False when it returns None.

        Nothing else that concerns these rows is committed between the version that `plan` has seen and this change:
        otherwise `plan` is called again. With `writer`, that includes all changes by the same writer. Raises
        RmqctlError.
        """

        def commit(table: DeltaTable | None) -> bool:
            wanted = plan(self._version(table))
            if wanted is not None:
                self._commit(table, wanted, writer)
            return wanted is not None

        return self._retried(commit)

    def compact(self, before_day: str) -> tuple[int, int]:
        """Merge the files of days before a day (YYYY-MM-DD); return how many files there were, and are instead."""

        def merge(table: DeltaTable | None) -> tuple[int, int]:
            if table is None:
                return 0, 0
            number = table.version()  # the commit moves the table on
            with explained("compact", self.root):
                if not _PROPERTIES.keys() <= table.metadata().configuration.keys():
                    table.alter.set_table_properties(_PROPERTIES)  # the table is of an earlier version of rmqctl
                done = table.optimize.compact([("dt", "<", before_day)], writer_properties=_writing())
                _sync(self.root, number)
            return done["numFilesRemoved"], done["numFilesAdded"]

        return self._retried(merge)

    def vacuum(self, retention_h: int) -> int:
        """Delete files that no version of the last retention_h hours names; return how many.

        A reader or writer that takes longer than that fails.
        """
        table = self._open()
        if table is None:
            return 0
        with explained("clean", self.root):
            return len(table.vacuum(retention_h, dry_run=False, enforce_retention_duration=False, full=True))

    def _retried(self, work: Callable[[DeltaTable | None], T]) -> T:
        """Return what `work` returns for the current version; after a conflict it is called again with a newer one."""
        from deltalake.exceptions import CommitFailedError

        for attempt in range(_ATTEMPTS):
            try:
                return work(self._open())
            except CommitFailedError:
                _wait(attempt)
        raise RmqctlError(f"Cannot write {self.root}: other processes kept changing it.", hint="Run it again.")

    def _open(self) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        self._require_readable()
        try:
            with explained("read", self.root):
                return DeltaTable(self.root)
        except RmqctlError as error:
            cause = error.__cause__
            if not isinstance(cause, TableNotFoundError) or not _is_absent(str(cause)):
                raise
        if not self._may_be_old and has_old_layout(self.root):
            raise RmqctlError(
                f"{self.root} was written by an earlier version of rmqctl, in another layout.",
                hint="Move its rows with rmqctl pipeline migrate.",
            )
        return None

    def _require_readable(self) -> None:
        """Raise RmqctlError for a local folder without permission, which Delta takes for a missing one."""
        if "://" in self.root:
            return
        try:
            next(Path(self.root, _LOG).iterdir(), None)
        except FileNotFoundError:
            return
        except OSError as error:
            raise RmqctlError(f"Cannot read {self.root}: {(error.strerror or str(error)).lower()}.") from None

    def _commit(self, table: DeltaTable | None, wanted: TableChange, writer: str | None) -> None:
        """Write and commit. Raises CommitFailedError when another commit concerned the same rows."""
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError

        # Of two commits with the mark of one writer, the second fails. Its number has no meaning.
        marks = {**wanted.marks, **({} if writer is None else {writer: time.time_ns()})}
        transactions = [Transaction(name, number) for name, number in marks.items()]
        given: dict[str, Any] = {
            "writer_properties": _writing(),
            "commit_properties": CommitProperties(app_transactions=transactions),
        }
        number = -1 if table is None else table.version()  # the commit moves the table on
        with explained("write", self.root):
            if table is None:
                try:
                    write_deltalake(
                        self.root, wanted.rows, mode="error", partition_by=_PARTITIONS, configuration=_PROPERTIES,
                        **given,
                    )  # fmt: skip
                except DeltaError as error:
                    if DeltaTable.is_deltatable(self.root):
                        raise CommitFailedError("Another process made the table first.") from error
                    raise
            elif wanted.replaces is None:
                write_deltalake(table, wanted.rows, mode="append", schema_mode="merge", **given)
            else:
                write_deltalake(
                    table, wanted.rows, mode="overwrite", schema_mode="merge", predicate=wanted.replaces, **given
                )
            _sync(self.root, number)


# Paths and errors


def location(path: str) -> str:
    """Return an absolute path or URI of a table. Raises UsageError for characters that Delta or Spark would change."""
    if path.startswith("file://"):
        path = path.removeprefix("file://")
    bad = next((each for each in path if each in _UNSUPPORTED), None)
    if bad is not None:
        raise UsageError(f"The path of tables {path} must not contain {bad!r}.")
    return path if "://" in path else str(Path(path).absolute())


def has_old_layout(root: str) -> bool:
    """Return whether a folder has the partitions of earlier versions (.../dt=DAY/hr=HOUR), and no log.

    Days alone can be those of a process that was killed before its first commit.
    """
    if "://" not in root:
        return not Path(root, _LOG).exists() and any(
            True for at in ("", "*/") for _ in Path(root).glob(f"{at}dt=*/hr=*")
        )
    paths = [f"/{info.path}" for info in stored_files(root)[1]]
    return not any(path.startswith(f"/{_LOG}") for path in paths) and any(
        "/dt=" in path and "/hr=" in path for path in paths
    )


def stored_files(root: str) -> tuple[Any, list[Any]]:
    """Return the file system of PyArrow for a folder or URI, and what is in it, in order of paths."""
    import pyarrow.fs
    from deltalake.fs import DeltaStorageHandler

    with explained("read", root):
        storage = pyarrow.fs.PyFileSystem(DeltaStorageHandler(root))
        found = storage.get_file_info(pyarrow.fs.FileSelector("", recursive=True, allow_not_found=True))
    return storage, sorted(found, key=lambda info: str(info.path))


@contextmanager
def explained(verb: str, root: str) -> Iterator[None]:
    """Raise the errors of Delta in the block as RmqctlError, except a conflict."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError, ValueError) as error:
        raise _error(verb, root, error) from error


def _error(verb: str, root: str, error: Exception) -> RmqctlError:
    # Stores wrap errors in errors, each with colours and an arrow before its cause; the last has the reason.
    causes = (_DETAIL.sub("", " ".join(cause.split())) for cause in _COLOUR.sub("", str(error)).split("↳"))
    known = [reason for cause in causes if (reason := cause[:_MOST_REASON].rstrip(".: "))]
    return RmqctlError(f"Cannot {verb} {root}: {known[-1] if known else type(error).__name__}.")


def _is_absent(said: str) -> bool:
    """Return whether an error says that nothing is there. Delta has one type for that and for what it cannot read."""
    return "No files in log segment" in said or "kind: NotFound" in said


def _in_schema(rows: Any, schema: Any) -> list[Any]:
    """Return the columns of a schema, in its types; null for one that the rows do not have."""
    import pyarrow as pa

    names = set(rows.schema.names)
    return [
        rows.column(field.name).cast(field.type) if field.name in names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]


def _epoch_ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def _writing() -> Any:
    from deltalake import WriterProperties

    return WriterProperties(compression="ZSTD")


def _wait(attempt: int) -> None:
    time.sleep(random.uniform(0, min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(attempt, 10))))  # noqa: S311


def _sync(root: str, before: int) -> None:
    """Make the commits after a version durable on a local disk: Delta does not wait for the disk."""
    if "://" in root:
        return
    log = Path(root, _LOG)
    commits = list(takewhile(Path.exists, (log / f"{number:020}.json" for number in count(before + 1))))
    added = [Path(root, path) for commit in commits for path in _added(commit)]
    folders = {path.parent for path in added} | {log, Path(root)}
    for path in (*added, *commits, *folders):
        try:
            number = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # a later commit and a vacuum have removed it
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _added(commit: Path) -> list[str]:
    try:
        lines = commit.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [action["add"]["path"] for line in lines if (action := json.loads(line)).get("add")]
