"""Runs jobs one after another, in one session if they need Spark, reports their progress, and explains failures."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError, UsageError
from rmqctl.pipeline.asking import ask_cluster
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult

from .session import delete_sent, is_submitted, start_session
from .spark_errors import explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S = 0.25
_MOST_LOOK_S = 10.0
# Options that mean the same to every job.
_OF_ALL = frozenset({"now_ms", "access", "ask", "name_servers", "who", "limit"})


class SparkPlace(Struct, frozen=True, kw_only=True):
    """Where jobs run: a master, a Spark Connect server, or this machine; `conf` is for the session."""

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = {}


class JobProgress(Struct, frozen=True):
    """The progress of a job: tasks of the running stages, and rows that were read; None means unknown."""

    done_count: int
    task_count: int
    row_count: int | None = None


class JobRun(Struct, frozen=True):
    """A job that has run: its outcome, or its error."""

    job: Job
    took_ms: int
    outcome: JobResult | None = None
    error: RmqctlError | None = None


def check_options(jobs: Sequence[Job], options: JobOptions, flags: Mapping[str, str]) -> None:
    """Make sure that one of the jobs accepts each option, and that each job has the options that it needs.

    `flags` are the options' names on the command line. Raises UsageError.
    """
    nothing = JobOptions(now_ms=options.now_ms)
    for name in JobOptions.__struct_fields__:
        if name in _OF_ALL or getattr(options, name) == getattr(nothing, name):
            continue
        if not any(name in job.takes for job in jobs):
            names = ", ".join(job.name for job in jobs)
            raise UsageError(
                f"{flags[name]} is not supported by {names}.",
                hint="See rmqctl pipeline run --help for the options of each job.",
            )
    for job in jobs:
        for name in sorted(job.needs):
            if not getattr(options, name):
                raise UsageError(f"The job {job.name} needs {flags[name]}.")
        if job.check is not None:
            job.check(options)


def check_place(jobs: Sequence[Job], place: SparkPlace) -> None:
    """Raise UsageError for a job with consequences on a Spark Connect server, which would not end with this process."""
    for job in jobs:
        if job.change is not None and place.remote is not None:
            raise UsageError(
                f"{job.name} does not run with --remote: the server would continue when this process has ended.",
                hint="Use --master, or run it on this machine.",
            )


def needs_session(jobs: Sequence[Job], place: SparkPlace) -> bool:
    """Return whether jobs need Spark, or the user names it. Under spark-submit, YARN expects that it is used."""
    return place != SparkPlace() or is_submitted() or any(job.needs_spark for job in jobs)


def check_cluster(jobs: Sequence[Job], options: JobOptions) -> None:
    """Run the jobs' checks against the cluster before Spark starts, which takes seconds. Raises RmqctlError."""
    looks = [job.look for job in jobs if job.look is not None]
    access = options.access
    if not looks or access is None:
        return

    async def ask(client: Client) -> None:
        for look in looks:
            await look(client, options)

    ask_cluster(replace(access, timeout_s=min(access.timeout_s, _MOST_LOOK_S)), ask)


def run_jobs(
    jobs: Sequence[Job],
    options: JobOptions,
    place: SparkPlace,
    *,
    is_quiet: bool = True,
    on_step: Callable[[Job | None, JobProgress | None], None],
) -> Iterator[JobRun]:
    """Start a session if a job needs one, run the jobs in it, and stop it; jobs after a failed one are not started.

    `on_step` receives the running job (None while the session starts) and its progress. With `is_quiet`, Spark's own
    output goes to a file, which is kept after a failure without an explanation. Raises RmqctlError when the session
    does not start.
    """
    if not needs_session(jobs, place):
        yield from _run_each(None, jobs, options, _Log(None), on_step)
        return
    on_step(None, None)
    # Under spark-submit the JVM is already running, and logs as it is configured there.
    with _log_file(is_quiet and not is_submitted()) as log:
        spark = start_session(master=place.master, remote=place.remote, conf=place.conf, log_path=log.path)
        try:
            yield from _run_each(spark, jobs, options, log, on_step)
        finally:
            _stop(spark)
            delete_sent()


def _stop(spark: SparkSession) -> None:
    """Stop a session. One whose JVM has died cannot be stopped, and the result of its jobs is known."""
    try:
        spark.stop()
    except Exception:
        logging.getLogger(__name__).warning("Spark did not stop:", exc_info=True)


class _Log:
    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.is_wanted = False


@contextmanager
def _log_file(is_quiet: bool) -> Iterator[_Log]:
    """Yield a file for Spark's output; it is deleted unless a failure can only be understood from it."""
    if not is_quiet:
        yield _Log(None)
        return
    with tempfile.NamedTemporaryFile(prefix="rmqctl-spark-", suffix=".log", delete=False) as file:
        log = _Log(Path(file.name))
    # The logs of Spark's Python side go there as well, for example py4j's after Ctrl-C cut a connection.
    handler = logging.FileHandler(file.name, encoding="utf-8")
    logging.getLogger().addHandler(handler)
    try:
        yield log
    except RmqctlError as error:
        log.is_wanted = type(error) is RmqctlError
        if log.is_wanted and error.hint is None:
            raise error.reworded(error.sentence, hint=f"See Spark's output in {log.path}.") from None
        raise
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
        if log.path is not None and not log.is_wanted:
            log.path.unlink(missing_ok=True)


def _run_each(
    spark: SparkSession | None,
    jobs: Sequence[Job],
    options: JobOptions,
    log: _Log,
    on_step: Callable[[Job | None, JobProgress | None], None],
) -> Iterator[JobRun]:
    for job in jobs:
        ran = _run(spark, job, options, log, on_step)
        yield ran
        if ran.error is not None:
            return


def _run(
    spark: SparkSession | None,
    job: Job,
    options: JobOptions,
    log: _Log,
    on_step: Callable[[Job | None, JobProgress | None], None],
) -> JobRun:
    begun_s = time.monotonic()

    def took_ms() -> int:
        return round((time.monotonic() - begun_s) * 1000)

    on_step(job, None)
    try:
        with _watched(spark, lambda step: on_step(job, step)):
            outcome = job.run(spark, options)
    except RmqctlError as error:
        return JobRun(job, took_ms(), error=error)
    except Exception as error:  # Spark has many: of py4j, of grpc, of its own, of our own inside them
        if spark is None:
            raise
        explained = explain(error)
        if type(explained) is RmqctlError and explained.hint is None and log.path is not None:
            log.is_wanted = True
            with log.path.open("a", encoding="utf-8") as file:
                traceback.print_exception(error, file=file)
            explained = explained.reworded(explained.sentence, hint=f"See Spark's output in {log.path}.")
        explained.__cause__ = error
        return JobRun(job, took_ms(), error=explained)
    return JobRun(job, took_ms(), outcome)


@contextmanager
def _watched(spark: SparkSession | None, on_step: Callable[[JobProgress], None]) -> Iterator[None]:
    """Call `on_step` regularly with the session's progress while the block runs.

    Spark Connect reports it by itself, without rows.
    """
    if spark is None:
        yield
        return
    if not hasattr(spark, "_jsparkSession"):

        def heard(stages: Any, *_more: Any, **_others: Any) -> None:
            on_step(
                JobProgress(sum(each.num_completed_tasks for each in stages), sum(each.num_tasks for each in stages))
            )

        spark.registerProgressHandler(heard)  # type: ignore[arg-type,attr-defined,unused-ignore]
        try:
            yield
        finally:
            spark.removeProgressHandler(heard)  # type: ignore[arg-type,attr-defined,unused-ignore]
        return
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_LOOK_EVERY_S):
            try:
                step = _look(spark)
            except Exception:  # noqa: BLE001 -- the job does not depend on a look
                return
            if step is not None:
                on_step(step)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def _look(spark: SparkSession) -> JobProgress | None:
    """Return the progress of the active stages, None when none is active. Rows are those read from a source."""
    tracker = spark.sparkContext.statusTracker()
    stages = [info for each in tracker.getActiveStageIds() if (info := tracker.getStageInfo(each)) is not None]
    if not stages:
        return None
    return JobProgress(
        sum(info.numCompletedTasks for info in stages), sum(info.numTasks for info in stages), _rows_read(spark)
    )


def _rows_read(spark: SparkSession) -> int | None:
    """Return the rows that the current query has read, as shown in Spark's web UI."""
    store = spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001 -- no public API has rows
    count = store.executionsCount()
    if count == 0:
        return None
    query = store.executionsList(int(count) - 1, 1).head()
    if query.completionTime().isDefined():
        return None
    values = store.executionMetrics(query.executionId())
    nodes = store.planGraph(query.executionId()).allNodes().iterator()
    total: int | None = None
    while nodes.hasNext():
        node = nodes.next()
        if "Scan" not in node.name():
            continue
        metrics = node.metrics().iterator()
        while metrics.hasNext():
            metric = metrics.next()
            value = values.get(metric.accumulatorId())
            if metric.name() == "number of output rows" and value.isDefined():
                total = (total or 0) + int(value.get().replace(",", ""))
    return total
