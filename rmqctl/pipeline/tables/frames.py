"""Between the tables and Spark: Spark reads the files of one version, and its results are committed from here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rmqctl.errors import NotFoundError

from .delta import Table, TableChange, TableFile, TableVersion
from .schemas import OFFSET_SNAPSHOTS, SCHEMAS, arrow_schema, columns_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_DAY_MS = 86_400_000


def require_version(table: Table) -> TableVersion:
    """Return the current version of a table. Raises NotFoundError when it does not exist."""
    version = table.version()
    if version is None:
        hint = "Create it with rmqctl pipeline run snapshot." if table.name == OFFSET_SNAPSHOTS else None
        raise NotFoundError("Table", table.root, hint=hint)
    return version


def no_snapshot(label: str | None, when: str) -> NotFoundError:
    """Return the error that a cluster, None for any, has no snapshot of a time."""
    hint = "Use an earlier --since, or take a snapshot with rmqctl pipeline run snapshot."
    whose = "" if label is None else f" of {label}"
    return NotFoundError("Snapshot", "", hint=hint).reworded(f"No snapshot{whose} was taken {when}.")


def read_files(spark: SparkSession, version: TableVersion, files: Iterable[TableFile]) -> DataFrame:
    """Return the rows of some files of a version."""
    paths, schema = [file.path for file in files], SCHEMAS[version.name]
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", version.root).parquet(*paths)


def read_between(spark: SparkSession, version: TableVersion, since_ms: int, until_ms: int) -> DataFrame:
    """Return the rows of the files that can have rows from since_ms (inclusive) to until_ms (exclusive)."""
    return read_files(spark, version, version.files_between(since_ms, until_ms))


def of_label(rows: DataFrame, label: str | None) -> DataFrame:
    """Return the rows of the cluster with a label, all rows without one."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    return rows if label is None else rows.where(F.col("cluster_label") == label)


def of_queues(snapshots: DataFrame) -> DataFrame:
    """Return the rows of queues in offset_snapshots: the others say that a group or a topic is gone."""
    return snapshots.where("broker_name is not null")


def collect(frame: DataFrame, table: Table) -> Any:
    """Compute a frame, and return the table's columns of it as an Arrow table."""
    return frame.select(*columns_of(table.name)).toArrow().cast(arrow_schema(table.name))


def replace_rows(table: Table, frame: DataFrame, where: str) -> int:
    """Write rows in the place of those that an SQL condition selects; return how many were written."""
    rows = collect(frame, table)
    table.change(lambda _version: TableChange(rows, where))
    return int(rows.num_rows)


def day_column(at_ms: Column) -> Column:
    """Return `dt` of a column of epoch ms, in UTC whatever the session's time zone is."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    day = F.floor(at_ms / F.lit(_DAY_MS)).cast("int")
    return F.date_add(F.lit("1970-01-01").cast("date"), day).cast("string").alias("dt")
