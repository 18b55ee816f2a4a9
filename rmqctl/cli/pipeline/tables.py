"""rmqctl pipeline tables: what a folder of tables has."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.errors import NotFoundError
from rmqctl.text.times import iso_time, time_fields

from .table_folder import Folder, Item, for_each_table

if TYPE_CHECKING:
    from rmqctl.pipeline.tables.delta import TableFile

HELP = """\b
Examples:
  rmqctl pipeline tables /data/rocketmq
  rmqctl pipeline tables /data/rocketmq --files offset_snapshots -o name

The tables are Delta tables: Parquet files, and a log that names the files of each version. Other tools read them with a
library for Delta, or read the files that --files lists, newest first. A pattern like **/*.parquet would also read files
that are no longer part of the table."""

_COLUMNS = (
    Column("TABLE", "table"),
    Column("VERSION", "version", is_number=True, gives_way=1),
    Column("ROWS", "rowCount", is_number=True),
    Column("FILES", "fileCount", is_number=True),
    Column("BYTES", "sizeBytes", is_number=True),
    Column("FIRST", "firstTimestamp", show=lambda item: _minute(item["firstTimestamp"])),
    Column("LAST", "lastTimestamp", show=lambda item: _minute(item["lastTimestamp"])),
)
_FILE_COLUMNS = (Column("FILE", "path"), *_COLUMNS[2:3], *_COLUMNS[4:])


def command(
    ctx: typer.Context,
    folder: Folder,
    files: Annotated[
        str | None, typer.Option("--files", metavar="TABLE", help="List the files of a table's current version.")
    ] = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.pipeline.session import require_tables

    invocation = Invocation(ctx, needs_cluster=False)
    columns = _COLUMNS if files is None else _FILE_COLUMNS
    choose_columns(columns, invocation.display)
    if files is None:
        items, failures = for_each_table(folder, lambda name: _table(folder, name))
        listing = Listing(
            kind="PipelineTables", columns=columns, items=items, failures=failures, name=lambda item: str(item["table"])
        )
    else:
        require_tables()
        items = _files(folder, files)
        listing = Listing(kind="PipelineTableFiles", columns=columns, items=items, name=lambda item: str(item["path"]))
    return render(listing, invocation.display)


def _minute(at_ms: int | None) -> str:
    return "-" if at_ms is None else f"{str(iso_time(at_ms))[:16]}Z"


def _table(folder: str, name: str) -> Item | None:
    from rmqctl.pipeline.tables.delta import Table

    version = Table(folder, name).version()
    if version is None:
        return None
    found = version.files
    return {"table": name, "version": version.number, "fileCount": len(found), **_sums(found)}


def _files(folder: str, name: str) -> list[Item]:
    from rmqctl.pipeline.tables.delta import Table
    from rmqctl.pipeline.tables.schemas import SCHEMAS
    from rmqctl.text.names import closest

    if name not in SCHEMAS:
        raise NotFoundError("Table", name, suggestions=closest(name, SCHEMAS))
    table = Table(folder, name)
    version = table.version()
    if version is None:
        raise NotFoundError("Table", table.root)
    return [{"path": file.path, **_sums([file])} for file in version.files]


def _sums(files: "Sequence[TableFile]") -> Item:
    counts = [file.row_count for file in files]
    firsts = [file.first_ms for file in files if file.first_ms is not None]
    lasts = [file.last_ms for file in files if file.last_ms is not None]
    return {
        "rowCount": None if None in counts else sum(counts),
        "sizeBytes": sum(file.size_bytes for file in files),
        **time_fields("firstTimestamp", min(firsts, default=None)),
        **time_fields("lastTimestamp", max(lasts, default=None)),
    }
