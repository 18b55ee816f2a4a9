"""Runs jobs one after another, in one session if they need Spark, reports their progress, and explains failures."""

from __future__ import annotations

import logging
import re
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

from rmqctl import errors
from rmqctl.client.core import Client
from rmqctl.errors import RmqctlError, UsageError
from rmqctl.pipeline.jobs.asking import ask_cluster
from rmqctl.pipeline.jobs.definition import Job, JobOptions, JobResult

from .session import delete_sent, is_submitted, start_session
from .source.hints import in_flags

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S = 0.25
_MOST_LOOK_S = 10.0
# Options that mean the same to every job.
_OF_ALL = frozenset({"now_ms", "access", "ask", "name_servers", "limit"})
_OURS = re.compile(r"^(?:\w+\.)*rmqctl\.errors\.(\w+): (.+)$", re.MULTILINE)
# Lines that can follow the error's line: of tracebacks of Python and the JVM, and of Spark's explanations.
_NO_HINT = re.compile(r"\s|Traceback|During handling|The above|File |at |JVM|Driver stacktrace|SQLSTATE|$")


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
            spark.stop()
            delete_sent()


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


def explain(error: Exception) -> RmqctlError:
    """Return the error in a text of Spark: one of ours that a task or a reader raised, or Spark's own.

    Spark keeps only an error's text: the line with its class and sentence, followed by the hint (see hints.py).
    """
    text = str(error)
    found = list(_OURS.finditer(text))
    if not found:
        return _sparks_own(text)
    name, sentence = found[-1].groups()
    kind = getattr(errors, name, RmqctlError)
    if not (isinstance(kind, type) and issubclass(kind, RmqctlError)):
        kind = RmqctlError
    after = text[found[-1].end() :].lstrip("\n").split("\n", 1)[0]
    made = kind.__new__(kind, sentence)
    made.sentence = in_flags(sentence)
    made.hint = None if _NO_HINT.match(after) else in_flags(after.strip())
    return made


_PACKAGE = re.compile(r"^(?:\w+\.)+(?=\w+: )")
_LOST_TASK = re.compile(r"Lost task .*?\): (?:\w+\.)+(\w+: .+)")
_NO_MODULE = (
    "Install rmqctl's libraries in the Python of the executors (pip install '.[spark]'),"
    " or name another Python with --conf spark.pyspark.python=FILE."
)
_KNOWN = (
    (
        "PATH_NOT_FOUND", "Spark cannot read {path}.",
        "Make sure that Spark reaches the folder of the tables by the same path as this machine.",
    ),
    ("PATH_ALREADY_EXISTS", "Path {path} already exists.", "Add --overwrite to replace it."),
    ("TABLE_OR_VIEW_ALREADY_EXISTS", "The table already exists.", "Add --overwrite to replace it."),
    ("OutOfMemoryError", "Spark ran out of memory.", "Give it more, for example --conf spark.driver.memory=4g."),
    (
        "Cannot run program", "Spark could not start the Python of its tasks.",
        "Make sure that every machine has the Python of spark.pyspark.python or PYSPARK_PYTHON, also this one.",
    ),
    ("No space left on device", "A disk is full.", "Use another one with --conf spark.local.dir=DIR."),
)  # fmt: skip


def _sparks_own(text: str) -> RmqctlError:
    for mark, sentence, hint in _KNOWN:
        if mark in text:
            path = re.search(r"[Pp]ath (\S+) already exists|[Pp]ath does not exist: (\S+?)\.?\s", f"{text} ")
            return RmqctlError(
                sentence.format(path=(path.group(1) or path.group(2)) if path else "").replace("  ", " "), hint=hint
            )
    if (raised := _python_error(text)) is not None:
        is_missing = raised.startswith("ModuleNotFoundError")
        return RmqctlError(
            f"Spark failed: a Python worker ended with {raised[:300]}", hint=_NO_MODULE if is_missing else None
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):
        # The JVM's error is below py4j's own line.
        lines = [_PACKAGE.sub("", lines[1].removeprefix(": "))] if len(lines) > 1 else lines
    first = lines[0] if lines else "no reason given"
    if (failed := _LOST_TASK.search(first)) is not None:
        first = failed.group(1)
    return RmqctlError(f"Spark failed: {first[:300]}")


def _python_error(text: str) -> str | None:
    """Return the line that ends the last traceback of a text, or None without a traceback."""
    before, mark, after = text.rpartition("Traceback (most recent call last):")
    if not mark:
        return None
    indent = before.rpartition("\n")[2]
    depth = len(indent) if indent.isspace() else 0
    lines = (line for line in after.splitlines() if line.strip())
    return next((line.strip() for line in lines if len(line) - len(line.lstrip()) <= depth), None)


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
