"""Where tasks run in other processes than here: a server of Spark Connect, executors of a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rmqctl
from tests.real.harness.cluster import Cluster

from .process import call

pytestmark = pytest.mark.parametrize("cluster", ["5.4.0"], indirect=True)

_CONNECT = """
import json, sys
from rmqctl.pipeline.session import start_session

namesrv, topic, folder = sys.argv[1:]
spark = start_session(remote="local[2]")
reader = spark.read.format("rocketmq").option("nameServers", namesrv).option("topic", topic)
bodies = sorted(row.body.decode() for row in reader.load().collect())
source = spark.readStream.format("rocketmq").option("nameServers", namesrv).option("topic", topic)
writer = source.load().writeStream.format("parquet").option("path", f"{folder}/table")
writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
said = ""
try:
    reader.option("startingOffsets", "yesterday").load().collect()
except Exception as error:
    said = str(error)
print(json.dumps([type(spark).__module__, bodies, spark.read.parquet(f"{folder}/table").count(), said]))
"""

_CLUSTER = """
import json, sys
from pyspark.sql import SparkSession
import rmqctl.pipeline

namesrv, topic = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
rmqctl.pipeline.register(spark)
reader = spark.read.format("rocketmq").option("nameServers", namesrv).option("topic", topic).option("minPartitions", 4)
bodies = sorted(row.body.decode() for row in reader.load().collect())

def place(_):
    import rmqctl.pipeline.reading
    return rmqctl.pipeline.reading.__file__

places = sorted(set(spark.sparkContext.parallelize(range(4), 4).map(place).collect()))
print(json.dumps([spark.sparkContext.master, bodies, places]))
"""


def _last_line(command: list[str], **environment: str) -> list[object]:
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=280)
    said = [line for line in done.stderr.splitlines() if not line.lstrip().startswith("at ")]
    assert done.returncode == 0, "\n".join(said[-60:])
    found: list[object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_over_spark_connect(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("Connected", queue_count=2)
    cluster.java.produce("Connected", 30)
    script = tmp_path / "connect.py"
    script.write_text(_CONNECT)
    module, bodies, count, said = _last_line([sys.executable, str(script), cluster.namesrv, "Connected", str(tmp_path)])
    assert str(module).startswith("pyspark.sql.connect")
    assert bodies == sorted(f"m{number}" for number in range(30))
    assert count == 30
    assert "The option startingOffsets: 'yesterday' is no" in str(said)


def test_a_job_under_spark_submit(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("Submitted", queue_count=2)
    cluster.java.produce("Submitted", 30)
    bin_folder = Path(sys.executable).parent
    assert call("pipeline", "package", str(tmp_path)).returncode == 0
    conf = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
    done = subprocess.run(
        [bin_folder / "spark-submit", "--master", "local-cluster[2,1,1024]", *conf, "--py-files", "rmqctl.zip",
         "rmqctl_submit.py", "-n", cluster.namesrv, "pipeline", "run", "read", "--topic", "Submitted", "--to",
         str(tmp_path / "table"), "-o", "json"],
        cwd=tmp_path, env={**os.environ, "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (job,) = json.loads(done.stdout)["jobs"]
    assert job["written"] == [{"path": str(tmp_path / "table"), "rowCount": 30}]
    assert list((tmp_path / "table").glob("*.parquet"))


def test_on_executors_that_get_a_zip(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("Zipped", queue_count=2)
    cluster.java.produce("Zipped", 30)
    source = Path(rmqctl.__file__).parent
    archive = tmp_path / "rmqctl.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in source.rglob("*.py"):
            file.write(path, path.relative_to(source.parent))
    script = tmp_path / "cluster.py"
    script.write_text(_CLUSTER)
    submit = str(Path(sys.executable).with_name("spark-submit"))
    conf = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
    command = [submit, "--master", "local-cluster[2,1,1024]", *conf, "--py-files", str(archive), str(script)]
    master, bodies, places = _last_line([*command, cluster.namesrv, "Zipped"], PYSPARK_PYTHON=sys.executable)
    assert master == "local-cluster[2,1,1024]"
    assert bodies == sorted(f"m{number}" for number in range(30))
    assert isinstance(places, list)
    assert all("rmqctl.zip" in str(place) for place in places), places
