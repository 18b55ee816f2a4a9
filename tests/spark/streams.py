"""A stream that reads what there is and ends, as often as a test wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


class Stream:
    """A query from a topic into a table, run again and again until it has read all there is.

    `every` are options of each run.
    """

    def __init__(self, spark: SparkSession, namesrv: str, topic: str, folder: Path, **every: str) -> None:
        self._spark, self._namesrv, self._topic, self._every = spark, namesrv, topic, every
        self._table, self._checkpoint = folder / "table", folder / "checkpoint"
        self.batches: list[int] = []

    def run(self, on_batch: Callable[[DataFrame, int], None] | None = None, **options: object) -> None:
        """Read what there is now, and end."""
        given = {name: str(value) for name, value in options.items()}
        source = self._spark.readStream.format("rocketmq").option("nameServers", self._namesrv)
        frame = source.option("topic", self._topic).options(**self._every, **given).load()
        writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(self._checkpoint))
        if on_batch is not None:
            writer = writer.foreachBatch(on_batch)
        else:
            writer = writer.format("parquet").option("path", str(self._table))
        query = writer.start()
        query.awaitTermination()
        self.batches = [progress.numInputRows for progress in query.recentProgress]

    def bodies(self) -> Counter[str]:
        """Return what is in the table."""
        return Counter(row.body.decode() for row in self._spark.read.parquet(str(self._table)).collect())
