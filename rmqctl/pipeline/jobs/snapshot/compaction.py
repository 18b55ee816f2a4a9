"""Compaction of the table of offsets: the runs of a past hour become one file.

The merged rows are first written next to the table, read back and counted, and then moved into their hour by a rename.
Only then are the source files deleted, by name. After an interruption at any point, every row is in the table at least
once, and the next compaction removes duplicates. Readers count rows with the same run, group and queue once. If such
rows differ, because an overwrite was interrupted, those outside of `merged` are newer. When two compactions run at the
same time, one of them ends with an error, and no rows are lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from rmqctl.errors import RmqctlError
from rmqctl.pipeline.tables.files import TableFile, TableFiles
from rmqctl.pipeline.tables.hours import Hour, hour_of

from .rows import KEYS, MERGED, SCHEMA, TablePart

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# A plan names each file, and a failure loses the whole batch: so a month of hours is not one batch.
_FILES_AT_ONCE = 1000

_Counts = dict[tuple[Hour, str], int]  # rows by hour and run


class CompactionReport(Struct, frozen=True):
    """The result of a compaction: how many hours were merged, and from how many files."""

    hour_count: int
    file_count: int


def files_to_merge(files: Iterable[TableFile], now_ms: int) -> dict[Hour, list[TableFile]]:
    """Return the files of each past hour that has more than one."""
    current = hour_of(now_ms)
    by_hour: dict[Hour, list[TableFile]] = {}
    for file in files:
        hour = _hour(file)
        if hour is not None and hour < current:
            by_hour.setdefault(hour, []).append(file)
    return {hour: found for hour, found in sorted(by_hour.items()) if len(found) > 1}


def _hour(file: TableFile) -> Hour | None:
    dt, hr = file.value("dt"), file.value("hr")
    return Hour(dt, int(hr)) if hr.isdigit() else None


def once_each(rows: DataFrame) -> DataFrame:
    """Return one row for each run, group and queue of an hour, preferring rows outside of `merged`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    same = Window.partitionBy("dt", "hr", *KEYS).orderBy(F.col("part") == MERGED)
    return rows.withColumn("_number", F.row_number().over(same)).where("_number = 1").drop("_number")


def compact(spark: SparkSession, files: TableFiles, path: str, now_ms: int) -> CompactionReport:
    """Merge past hours. Raises RmqctlError when the written rows are not those that were read."""
    files.delete_folder(_work_folder(path))
    due = files_to_merge(files.list(), now_ms)
    for batch in batches(due, _FILES_AT_ONCE):
        _rewrite(spark, files, path, [file for hour in batch for file in due[hour]], batch)
    return CompactionReport(len(due), sum(map(len, due.values())))


def batches(due: Mapping[Hour, Sequence[TableFile]], file_count: int) -> list[list[Hour]]:
    """Divide hours into batches of at least file_count files; the last batch may be smaller."""
    found: list[list[Hour]] = []
    room = 0
    for hour, files in due.items():
        if room <= 0:
            found.append([])
            room = file_count
        found[-1].append(hour)
        room -= len(files)
    return found


def drop_run(spark: SparkSession, files: TableFiles, path: str, run_id: str, places: Collection[TablePart]) -> None:
    """Remove a run from some parts: delete its own parts, and rewrite merged parts without its rows."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    found = [(file, TablePart(hour, file.value("part"))) for file in files.list() if (hour := _hour(file)) is not None]
    files.delete(file.path for file, place in found if place in places and place.part == run_id)
    merged = [file for file, place in found if place in places and place.part == MERGED]
    if merged:
        hours = {hour for file in merged if (hour := _hour(file)) is not None}
        _rewrite(spark, files, path, merged, hours, F.col("run_id") != run_id)


def _rewrite(
    spark: SparkSession,
    files: TableFiles,
    path: str,
    sources: Sequence[TableFile],
    hours: Iterable[Hour],
    kept: Column | None = None,
) -> None:
    """Replace the sources by one file in the merged part of each hour, with the rows that satisfy `kept`."""
    from pyspark.sql import functions as F  # noqa: N812 -- the usual alias

    # By name: files that are added meanwhile are neither read nor deleted.
    rows = spark.read.schema(SCHEMA).option("basePath", path).parquet(*(file.path for file in sources))
    if kept is not None:
        rows = rows.where(kept)
    work = f"{_work_folder(path)}/{uuid.uuid4().hex}"
    written = once_each(rows.repartition("dt", "hr")).withColumn("part", F.lit(MERGED))
    written.sortWithinPartitions("dt", "hr", *KEYS).write.partitionBy("dt", "hr", "part").parquet(work)
    try:
        wanted = _counts(rows.select("dt", "hr", *KEYS).distinct())
        if _counts(spark.read.schema(SCHEMA).parquet(work)) != wanted:
            raise RmqctlError(
                "Compaction did not write the rows that it read, so it changed nothing.",
                hint="Run it again when no other process changes the table.",
            )
        made = _by_hour(TableFiles(spark, work).list())
        old = _by_hour(sources)
        for hour in hours:
            for file in made.get(hour, ()):
                files.move(file.path, f"{path}/dt={hour.dt}/hr={hour.hr}/part={MERGED}")
            files.delete(file.path for file in old[hour])
    finally:
        files.delete_folder(_work_folder(path))


def _by_hour(files: Iterable[TableFile]) -> Mapping[Hour, list[TableFile]]:
    by_hour: dict[Hour, list[TableFile]] = {}
    for file in files:
        hour = _hour(file)
        if hour is not None:
            by_hour.setdefault(hour, []).append(file)
    return by_hour


def _counts(rows: DataFrame) -> _Counts:
    counted = rows.groupBy("dt", "hr", "run_id").count().collect()
    return {(Hour(row.dt, row.hr), row.run_id): row["count"] for row in counted}


def _work_folder(path: str) -> str:
    """Return where files are written before they are moved: next to the table, on the same file system."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}-compaction"
