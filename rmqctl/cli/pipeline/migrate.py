"""rmqctl pipeline migrate: tables of earlier versions become Delta tables."""

# No "from __future__ import annotations" here: typer would evaluate the texts that it makes, at 1 ms each.
import typer

from rmqctl.cli.invocation import Invocation
from rmqctl.cli.output.listing import Column, Listing

from .table_folder import ClusterLabel, Folder, Item, for_each_table, known_name_servers

HELP = """\b
Examples:
  rmqctl pipeline migrate /data/rocketmq -n 10.0.0.5:9876
  rmqctl pipeline migrate /data/rocketmq --cluster-label production

Earlier versions wrote Parquet files into folders by hour, without a label of the cluster. All rows get one label, so
the folder must have rows of one cluster only. Each table is moved completely or not at all. The old files are no longer
read; rmqctl pipeline optimize deletes them. Stop jobs of the earlier version first: what they write afterwards is not
read."""

_COLUMNS = (
    Column("TABLE", "table"),
    Column("STATE", "state"),
    Column("ROWS", "rowCount", is_number=True),
    Column("OLD FILES", "fileCount", is_number=True),
    Column("REPEATED ROWS", "repeatedCount", is_number=True),
)


def command(
    ctx: typer.Context,
    folder: Folder,
    cluster_label: ClusterLabel = None,
) -> int:
    """Run the command. Its help consists of the registry's summary and HELP."""
    from rmqctl.cli.output.render import choose_columns, render
    from rmqctl.pipeline.jobs.cluster_label import check_label, label_of

    invocation = Invocation(ctx, needs_cluster=False)
    choose_columns(_COLUMNS, invocation.display)
    if cluster_label is not None:
        check_label(cluster_label)
    label = label_of(cluster_label, known_name_servers(invocation))
    items, failures = for_each_table(folder, lambda name: _migrate(folder, name, label))
    listing = Listing(
        kind="PipelineMigration", columns=_COLUMNS, items=items, failures=failures, name=lambda item: str(item["table"])
    )
    return render(listing, invocation.display)


def _migrate(folder: str, name: str, label: str) -> Item | None:
    from rmqctl.pipeline.tables.delta import Table
    from rmqctl.pipeline.tables.old_layout import migrate

    done = migrate(folder, name, label)
    if done is None and Table(folder, name).version() is None:
        return None
    return {
        "table": name,
        "state": "CURRENT" if done is None else "MIGRATED",
        "clusterLabel": None if done is None else label,
        "rowCount": None if done is None else done.row_count,
        "fileCount": None if done is None else done.file_count,
        "repeatedCount": None if done is None else done.repeated_count,
    }
