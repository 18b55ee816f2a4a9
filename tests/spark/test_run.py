"""rmqctl pipeline run: the command as people and scripts call it, against real RocketMQ."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rmqctl.errors import DeadlineError, NotFoundError, RmqctlError, UnreachableError, UsageError
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult
from rmqctl.pipeline.run import JobProgress, SparkPlace, _watched, run_jobs
from rmqctl.pipeline.spark_errors import explain
from tests.cli.calls import closed_address
from tests.real.harness.cluster import Cluster
from tests.schemas import check_document

from .conftest import Read
from .process import RMQCTL, call

_NEW = pytest.mark.parametrize("cluster", ["5.4.0"], indirect=True)


def test_a_topic_into_parquet(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    cluster.create_topic("RunRead", queue_count=2)
    cluster.java.produce("RunRead", 300, tag="A")
    folder = str(tmp_path / "table")
    words = ("-n", cluster.namesrv, "pipeline", "run", "read", "--topic", "RunRead", "--master", "local[2]")
    done = call(*words, "--to", folder, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    check_document(document)
    assert [(job["job"], job["rowCount"], job["written"]) for job in document["jobs"]] == [
        ("read", 300, [{"path": folder, "rowCount": 300}])
    ]
    bodies = sorted(row.body.decode() for row in spark.read.parquet(folder).collect())
    assert bodies == sorted(f"m{number}" for number in range(300))
    again = call(*words, "--to", folder)
    assert (again.returncode, again.stdout) == (1, "")
    assert "already exists" in again.stderr
    assert "--overwrite" in again.stderr
    assert spark.read.parquet(folder).count() == 300


@_NEW
def test_a_topic_is_shown_and_nothing_of_spark(cluster: Cluster) -> None:
    cluster.create_topic("RunShown", queue_count=1)
    cluster.java.produce("RunShown", 30, tag="A")
    words = ("-n", cluster.namesrv, "pipeline", "run", "read", "--topic", "RunShown", "--limit", "7")
    done = call(*words, "--columns", "queueOffset,tags")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["OFFSET", "TAG"]
    assert [line.split() for line in lines[1:]] == [[str(number), "A"] for number in range(7)]
    assert done.stderr.splitlines()[1:] == [
        "Showing at most 7 messages; write all with --to.",
        "rmqctl: Only 7 rows of read are shown (--limit). There are more.",
    ]
    assert done.stderr.startswith("read finished in ")


@_NEW
def test_mistakes_are_told_before_spark_starts(cluster: Cluster) -> None:
    cluster.create_topic("RunTold", queue_count=1)
    # A Java that would fail to start: it is never asked for more than its version.
    run = ("-n", cluster.namesrv, "pipeline", "run", "read", "--conf", "spark.driver.memory=1")
    unknown = call(*run, "--topic", "RunTolt")
    assert (unknown.returncode, unknown.stdout) == (5, "")
    assert unknown.stderr.splitlines() == ["rmqctl: Topic RunTolt does not exist.", "        Did you mean RunTold?"]
    nobody = call("-n", closed_address(), *run[2:], "--topic", "RunTold")
    assert (nobody.returncode, nobody.stdout) == (6, "")
    assert "refused" in nobody.stderr
    sql = call(*run, "--topic", "RunTold", "--sql", "a >")
    assert sql.returncode == 2
    assert sql.stderr.startswith("rmqctl: Invalid --sql expression 'a >'")


@_NEW
def test_a_session_that_does_not_start_says_where_the_reason_is(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("RunUnstarted", queue_count=1)
    run = ("-n", cluster.namesrv, "pipeline", "run", "read", "--topic", "RunUnstarted")
    done = call(*run, "--conf", "spark.driver.memory=1", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.splitlines()
    assert said[0].startswith("rmqctl: Spark did not start: ")
    (log,) = tmp_path.glob("rmqctl-spark-*.log")
    assert said[1:] == [f"        See Spark's output in {log}."]
    assert "heap" in log.read_text()
    far = call(*run, "--remote", "sc://127.0.0.1:1")
    assert (far.returncode, far.stdout) == (6, "")
    assert far.stderr == "rmqctl: sc://127.0.0.1:1: no Spark Connect server answers.\n"


@_NEW
def test_what_spark_said_of_a_job_that_failed_stays(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("RunFailing", queue_count=1)
    run = ("-n", cluster.namesrv, "pipeline", "run", "read", "--topic", "RunFailing", "--to")
    done = call(*run, "nowhere://bucket/table", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.splitlines()
    assert said[0].startswith("rmqctl: Spark failed: ")
    assert "nowhere" in said[0]
    (log,) = tmp_path.glob("rmqctl-spark-*.log")
    assert said[1:] == [f"        See Spark's output in {log}."]
    assert "UnsupportedFileSystemException" in log.read_text()
    done = call(*run, str(tmp_path), TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert "already exists" in done.stderr
    assert list(tmp_path.glob("rmqctl-spark-*.log")) == [log]


@_NEW
def test_ctrl_c_leaves_nothing_behind(cluster: Cluster, tmp_path: Path) -> None:
    """While Spark starts, when PySpark itself would leave a JVM, and when it is at work."""
    cluster.create_topic("RunStopped", queue_count=1)
    for wait_s in (1.5, 12):
        mark = f"spark.rmqctl.mark={tmp_path.name}-{wait_s}"
        run = ("-n", cluster.namesrv, "pipeline", "run", "read", "--topic", "RunStopped", "--conf", mark)
        process = subprocess.Popen(
            [RMQCTL, *run], stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        time.sleep(wait_s)
        was_over = process.poll() is not None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == (0 if was_over else 130)
        assert "Traceback" not in said
        deadline_s = time.monotonic() + 20
        while (left := _processes_with(mark)) and time.monotonic() < deadline_s:
            time.sleep(0.2)
        assert not left
        assert not list(tmp_path.glob("rmqctl-spark-*.log"))


def _processes_with(word: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_text(errors="replace"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@_NEW
def test_rows_are_counted_while_they_are_read(cluster: Cluster, spark: SparkSession, read: Read) -> None:
    cluster.create_topic("RunWatched", queue_count=2)
    cluster.java.produce("RunWatched", 20_000, batch=100)
    steps: list[JobProgress] = []
    with _watched(spark, steps.append):
        # Slow enough to be seen at work.
        read("RunWatched", minPartitions=16).selectExpr("reflect('java.lang.Thread', 'sleep', 1L)").write.format(
            "noop"
        ).mode("overwrite").save()
    assert steps
    assert all(0 <= step.done_count <= step.task_count for step in steps)
    counts = [step.row_count for step in steps if step.row_count is not None]
    assert counts == sorted(counts)
    assert 0 < counts[-1] <= 20_000


def _job(name: str, outcome: JobResult | Exception) -> Job:
    def run(spark: SparkSession, options: JobOptions) -> JobResult:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Job(name=name, takes=frozenset(), run=run)


def test_after_a_job_that_fails_none_is_begun(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.setattr("rmqctl.pipeline.run.start_session", lambda **_: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    jobs = [_job("first", JobResult()), _job("second", ValueError("odd")), _job("third", JobResult())]
    heard: list[str] = []

    def on_step(job: Job | None, step: JobProgress | None) -> None:
        heard.append("start" if job is None else job.name)

    ran = list(run_jobs(jobs, JobOptions(now_ms=0), SparkPlace(), on_step=on_step))
    assert [(each.job.name, each.outcome is not None) for each in ran] == [("first", True), ("second", False)]
    assert isinstance(ran[1].error, RmqctlError)
    assert ran[1].error.sentence == "Spark failed: odd"
    assert heard == ["start", "first", "second"]


def test_spark_s_texts_become_our_errors_again(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="nameServers") as raised:
        spark.read.format("rocketmq").option("topic", "T").load().collect()
    error = explain(raised.value)
    assert type(error) is UsageError
    assert error.sentence == "The option nameServers is missing."
    assert "host:port;host:port" in (error.hint or "")
    with pytest.raises(Exception, match="refused") as raised:
        spark.read.format("rocketmq").option("topic", "T").option("nameServers", "127.0.0.1:1").load().collect()
    error = explain(raised.value)
    assert type(error) is UnreachableError
    assert error.exit_code == 6
    assert "127.0.0.1:1" in error.sentence
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as raised:
        spark.range(3).selectExpr("1 div (id - 1)").collect()
    error = explain(raised.value)
    assert type(error) is RmqctlError
    assert error.sentence.startswith("Spark failed: [DIVIDE_BY_ZERO]")


_LIBRARIES = "--conf spark.pyspark.python=FILE"
# As YARN's containers failed: a socket's path was too long, and a library was missing.
_NO_WORKER = """Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: Job aborted: Lost task 0.3 (TID 13) (h executor 1): org.x.SparkException:
Error from python worker:
  Traceback (most recent call last):
    File "<frozen runpy>", line 88, in _run_code
  OSError: AF_UNIX path too long
PYTHONPATH was:
  /tmp/pyspark.zip"""
_NO_MODULE = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source: Traceback (most recent call last):
  File "pyspark/serializers.py", line 483, in loads
    return cloudpickle.loads(obj, encoding=encoding)
           ^^^^^^^^^^^^^^^^^
ModuleNotFoundError: No module named 'msgspec'
 SQLSTATE: 38000"""


@pytest.mark.parametrize(
    ("text", "kind", "sentence", "hint"),
    [
        (
            "Traceback\nrmqctl.errors.NotFoundError: Topic T does not exist.\nDid you mean U?\n\n\tat org.apache",
            NotFoundError, "Topic T does not exist.", "Did you mean U?",
        ),
        (
            "rmqctl.errors.DeadlineError: b: no answer within 3.0 s.\n\n\tat org.apache.spark",
            DeadlineError, "b: no answer within 3.0 s.", None,
        ),
        ("rmqctl.errors.NoSuchError: odd.", RmqctlError, "odd.", None),
        (
            "An error occurred while calling o1.parquet.\n: java.io.IOException: No space left on device",
            RmqctlError, "A disk is full.", "--conf spark.local.dir=DIR",
        ),
        (
            "An error occurred while calling o1.x.\n: java.lang.IllegalStateException: shut\n\tat x",
            RmqctlError, "Spark failed: IllegalStateException: shut", None,
        ),
        (_NO_WORKER, RmqctlError, "Spark failed: a Python worker ended with OSError: AF_UNIX path too long", None),
        (
            _NO_MODULE, RmqctlError,
            "Spark failed: a Python worker ended with ModuleNotFoundError: No module named 'msgspec'",
            _LIBRARIES,
        ),
        (
            'java.io.IOException: Cannot run program "./env/bin/python": error=2, No such file or directory',
            RmqctlError, "Spark could not start the Python of its tasks.",
            "spark.pyspark.python or PYSPARK_PYTHON",
        ),
        (
            "Job aborted: Lost task 0.3 in stage 0.0 (TID 7) (127.0.0.1 executor 1): java.io.IOException: Shut\n\tat y",
            RmqctlError, "Spark failed: IOException: Shut", None,
        ),
    ],
)  # fmt: skip
def test_texts_are_explained(text: str, kind: type[RmqctlError], sentence: str, hint: str | None) -> None:
    error = explain(ValueError(text))
    assert (type(error), error.sentence) == (kind, sentence)
    assert (error.hint is None) if hint is None else (hint in (error.hint or ""))
