"""How fast format("rocketmq") reads, beside the same reading without Spark; `make bench-spark`.

One cluster of RocketMQ 5.4.0, 1,000,000 messages of 1 KiB over 8 queues of two brokers, two cores, everything warm,
each figure the median of three runs taken in turns. What Spark costs by itself is shown beside: the time that it takes
for as many messages of a batch that is there already, over and over, with nothing read and nothing decoded.
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rmqctl.client.access import Access
from rmqctl.pipeline.jobs.definition import JobOptions
from rmqctl.pipeline.jobs.read.job import JOB
from rmqctl.pipeline.session import start_session
from rmqctl.pipeline.source.data_source import MessageReader, RocketMQDataSource
from rmqctl.pipeline.source.message_rows import ARROW_TYPES, SPARK_SCHEMA
from rmqctl.pipeline.source.options import read_source_options
from rmqctl.pipeline.source.tasks import Task, read_batches
from tests.real.harness.cluster import Cluster

_TOPIC, _COUNT, _SIZE_BYTES = "Bench", 1_000_000, 1024
_SMALL_TOPIC, _SMALL_QUEUES = "BenchSmall", 50
_CORES, _RUNS = 2, 3


class _Tuples(RocketMQDataSource):
    """The same source, handing rows over one by one, as most Python sources do."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def reader(self, schema: StructType) -> DataSourceReader:  # type: ignore[override]
        return _TupleReader(super().reader(schema))


class _TupleReader(DataSourceReader):
    def __init__(self, inner: MessageReader) -> None:
        self._inner = inner

    def partitions(self) -> Any:
        return self._inner.partitions()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        for batch in self._inner.read(partition):
            for row in batch.to_pylist():
                yield tuple({**row, "properties": dict(row["properties"])}.values())


class _Ready(RocketMQDataSource):
    """One batch, made before, handed over again and again by as many tasks."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # type: ignore[override]
        return _ReadyReader(self.options["path"])


class _ReadyReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(8)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(self._path) as file:
            (batch,) = pa.ipc.open_stream(file).read_all().to_batches()
        for _ in range(_COUNT // 8 // batch.num_rows):
            yield batch


def main() -> int:
    """Print what was measured, beside what must be reached; exit 1 when something is not."""
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-bench-"))
    cluster = Cluster("5.4.0", folder / "home", broker_count=2, jvm=())
    try:
        cluster.wait()
        _fill(cluster)
        spark = start_session(master=f"local[{_CORES},4]", name="bench")
        spark.dataSource.register(_Tuples)
        spark.dataSource.register(_Ready)
        rows = _measure(spark, cluster, folder)
        spark.stop()
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
    for what, figure, goal, reached in rows:
        print(f"{'ok  ' if reached else 'MISS'}  {what:<60} {figure:<34} {goal}")
    return 0 if all(reached for *_, reached in rows) else 1


def _fill(cluster: Cluster) -> None:
    cluster.create_topic(_TOPIC, queue_count=4)
    for broker in cluster.brokers:
        for number in range(4):
            cluster.java.produce(_TOPIC, _COUNT // 8, queue=f"{broker}:{number}", batch=100, size=_SIZE_BYTES, keys="k")
    cluster.create_topic(_SMALL_TOPIC, queue_count=_SMALL_QUEUES)
    cluster.java.produce(_SMALL_TOPIC, 10 * 2 * _SMALL_QUEUES)
    cluster.close_java()


def _measure(spark: SparkSession, cluster: Cluster, folder: Path) -> list[tuple[str, str, str, bool]]:
    def frame(topic: str = _TOPIC, source: str = "rocketmq", **options: Any) -> Any:
        reader = spark.read.format(source).option("nameServers", cluster.namesrv).option("topic", topic)
        return reader.options(**options).load()

    def to_noop(**given: Any) -> None:
        frame(**given).write.format("noop").mode("overwrite").save()

    def to_parquet() -> None:
        access = Access(cluster.namesrv, 10)
        JOB.run(
            spark,
            JobOptions(now_ms=0, access=access, topics=(_TOPIC,), to=str(folder / "table"), overwrite=True),
        )

    part = {"startingOffsets": _offsets(0), "endingOffsets": _offsets(_COUNT // 80)}
    # Spark's workers stay as well.
    pool, one = (multiprocessing.get_context("forkserver").Pool(count) for count in (_CORES, 1))
    ways: dict[str, Callable[[], None]] = {
        "raw": lambda: _read_raw(pool, cluster.namesrv),
        "one raw": lambda: _read_raw(one, cluster.namesrv),
        "noop": to_noop,
        "ready": lambda: to_noop(source="ready", path=_write_batch(folder, cluster.namesrv)),
        "parquet": to_parquet,
        "some arrow": lambda: to_noop(**part),
        "some tuples": lambda: to_noop(source="tuples", **part),
        "small": lambda: to_noop(topic=_SMALL_TOPIC),
    }
    for _ in range(2):
        for way in ways.values():
            way()
    taken = [[_seconds(way) for way in ways.values()] for _ in range(_RUNS)]
    pool.terminate()
    one.terminate()
    seconds = {name: statistics.median(run[at] for run in taken) for at, name in enumerate(ways)}
    rate = {name: _COUNT / seconds[name] for name in ("raw", "one raw", "noop", "parquet")}
    noop, parquet = rate["noop"] / rate["raw"], rate["parquet"] / rate["raw"]
    times = seconds["some tuples"] / seconds["some arrow"]
    return [
        (f"read without Spark, {_CORES} processes, to Arrow", f"{rate['raw']:,.0f} msg/s", "", True),
        ("    the same in one process", f"{rate['one raw']:,.0f} msg/s", "", True),
        ("read to noop", f"{rate['noop']:,.0f} msg/s = {noop:.2f}", ">= 0.8 of two processes", noop >= 0.8),
        (
            "    Spark's own part: a ready batch to noop",
            f"{seconds['ready']:.2f} s beside {seconds['raw']:.2f} s",
            "",
            True,
        ),
        (
            "read to Parquet, by the job read",
            f"{rate['parquet']:,.0f} msg/s = {parquet:.2f}",
            ">= 0.5 of two processes",
            parquet >= 0.5,
        ),
        ("Arrow beside tuples, 100,000 messages", f"{times:.1f} times", ">= 2 times", times >= 2),
        (f"{2 * _SMALL_QUEUES} queues of 10 messages", f"{seconds['small']:.2f} s", "< 1 s", seconds["small"] < 1),
    ]


def _offsets(offset: int) -> str:
    queues = ", ".join(f'"broker-{name}:{number}": {offset}' for name in "ab" for number in range(4))
    return f'{{"{_TOPIC}": {{{queues}}}}}'


def _seconds(way: Callable[[], None]) -> float:
    start_s = time.perf_counter()
    way()
    return time.perf_counter() - start_s


def _read_raw(pool: Pool, namesrv: str) -> None:
    """Read the same by the same client, in the pool's processes, in the same parts."""
    assert sum(pool.map(_count, _parts(namesrv), chunksize=1)) == _COUNT


def _write_batch(folder: Path, namesrv: str) -> str:
    """Write the first batch of a task, once; return where it is."""
    path = folder / "batch.arrow"
    if not path.exists():
        batch = next(read_batches(_parts(namesrv)[0]))
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batch.schema) as stream:
            stream.write_batch(batch)
    return str(path)


def _parts(namesrv: str) -> list[Task]:
    options = read_source_options({"nameservers": namesrv, "topic": _TOPIC}, 0)
    return [part.task for part in MessageReader(options, tuple(ARROW_TYPES)).partitions()]


def _count(task: Task) -> int:
    return sum(batch.num_rows for batch in read_batches(task))


if __name__ == "__main__":
    sys.exit(main())
