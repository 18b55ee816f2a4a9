"""Where tasks run in other processes than here: a server of Spark Connect, executors of a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import rmqctl
from tests.real.harness.cluster import Cluster
from tests.real.harness.conditions import wait_until
from tests.real.harness.process import free_port, is_listening

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
    import rmqctl.pipeline.source.tasks
    return rmqctl.pipeline.source.tasks.__file__

places = sorted(set(spark.sparkContext.parallelize(range(4), 4).map(place).collect()))
print(json.dumps([spark.sparkContext.master, bodies, places]))
"""

_SENT = """
import json, sys
from rmqctl.pipeline.session import start_session

place, namesrv, topic = sys.argv[1:]
if place.startswith("sc:"):
    spark = start_session(remote=place)
else:
    spark = start_session(master=place, conf={"spark.pyspark.python": sys.executable})
reader = spark.read.format("rocketmq").option("nameServers", namesrv).option("topic", topic)
bodies = sorted(row.body.decode() for row in reader.load().collect())

def find(_):
    import pyarrow
    import rmqctl.pipeline.source.tasks
    yield pyarrow.RecordBatch.from_pydict({"file": [rmqctl.pipeline.source.tasks.__file__]})

files = [row.file for row in spark.range(1).mapInArrow(find, "file string").collect()]
print(json.dumps([type(spark).__module__, bodies, files]))
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
    assert "The option startingOffsets: invalid time 'yesterday'" in str(said)


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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Run a server of Spark Connect; return its address."""
    port = free_port()
    home = Path(str(find_spec("pyspark").submodule_search_locations[0]))  # type: ignore[union-attr,index]
    conf = (
        f"spark.connect.grpc.binding.port={port}", "spark.connect.grpc.binding.address=127.0.0.1",
        "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1", "spark.ui.enabled=false",
    )  # fmt: skip
    command = ["bash", home / "sbin" / "start-connect-server.sh", "--master", "local[2]"]
    environment = {"SPARK_NO_DAEMONIZE": "1", "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / "server.log").open("wb") as log:
        running = subprocess.Popen(
            [*command, *(word for each in conf for word in ("--conf", each))],
            env={**os.environ, **environment}, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        say = (tmp_path / "server.log").read_text
        try:
            wait_until(lambda: running.poll() is not None or is_listening(port), 90, say)
            assert running.poll() is None, say()[-2000:]
            yield f"sc://127.0.0.1:{port}"
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGTERM)
            running.wait(60)


@pytest.mark.parametrize("place", ["local-cluster[1,1,1024]", "server"])
def test_executors_elsewhere_are_sent_rmqctl(
    cluster: Cluster, tmp_path: Path, place: str, request: pytest.FixtureRequest
) -> None:
    topic = f"Sent{place.partition('[')[0]}"
    cluster.create_topic(topic, queue_count=2)
    cluster.java.produce(topic, 30)
    if place == "server":
        place = request.getfixturevalue("server")
    script = tmp_path / "sent.py"
    script.write_text(_SENT)
    command = [sys.executable, str(script), place, cluster.namesrv, topic]
    module, bodies, files = _last_line(command, TMPDIR=str(tmp_path))
    assert str(module).startswith("pyspark.sql.connect") == place.startswith("sc:")
    assert bodies == sorted(f"m{number}" for number in range(30))
    assert isinstance(files, list)
    assert all("rmqctl.zip" in str(file) for file in files), files
    assert not list(tmp_path.glob("rmqctl-spark-*")), "what was sent is still there"
