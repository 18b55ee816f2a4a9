"""rmqctl pipeline optimize: fewer and larger files in a folder of tables."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
from typing import Annotated

import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing
from rmqctl.errors import UsageError

from .table_folder import Folder, Item, for_each_table

HELP = """\b
Examples:
  rmqctl pipeline optimize /data/rocketmq
  rmqctl pipeline optimize /data/rocketmq --retention 1d

Merges the files of each past day (UTC) into one, and deletes files that no version of the last 7 days names
(--retention). Run it once a day. Jobs may read and write the tables meanwhile. A job that takes longer than the
retention can fail, because its files are deleted."""

_HOUR_MS = 3_600_000
_COLUMNS = (
    Column("TABLE", "table"),
    Column("MERGED FILES", "mergedFileCount", is_number=True),
    Column("INTO", "newFileCount", is_number=True),
    Column("DELETED FILES", "deletedFileCount", is_number=True),
)


def command(
    ctx: typer.Context,
    folder: Folder,
    retention: Annotated[
        str,
        typer.Option("--retention", metavar="DURATION", help="How long files of older versions are kept, at least 1h."),
    ] = "7d",
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    import time

    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.pipeline.tables.delta import Table
    from rmqctl.pipeline.tables.hours import day_of
    from rmqctl.text.durations import parse_duration_ms
    from rmqctl.text.option_errors import option_errors

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(_COLUMNS, invocation.display)
    with option_errors("--retention"):
        retention_ms = parse_duration_ms(retention)
    if retention_ms < _HOUR_MS or retention_ms % _HOUR_MS:
        raise UsageError("--retention must be whole hours, at least 1h.")
    today = day_of(time.time_ns() // 1_000_000)

    def optimize(name: str) -> Item | None:
        table = Table(folder, name)
        if table.version() is None:
            return None
        merged_count, new_count = table.compact(today)
        return {
            "table": name,
            "mergedFileCount": merged_count,
            "newFileCount": new_count,
            "deletedFileCount": table.vacuum(retention_ms // _HOUR_MS),
        }

    items, failures = for_each_table(folder, optimize)
    listing = Listing(
        kind="PipelineOptimize", columns=_COLUMNS, items=items, failures=failures, name=lambda item: str(item["table"])
    )
    return render(listing, invocation.display)
