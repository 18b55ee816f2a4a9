"""Runs jobs one after the other in one session, watches how far they are, and says plainly what went wrong."""

from __future__ import annotations

import asyncio
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
from rmqctl.errors import RmqctlError, UsageError

from .job import Job, JobOptions, Outcome
from .session import is_submitted, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_EVERY_S = 0.25
_MOST_LOOK_S = 10.0
# Options that mean the same to every job.
_OF_ALL = frozenset({"now_ms", "access", "limit"})
_OURS = re.compile(r"^(?:\w+\.)*rmqctl\.errors\.(\w+): (.+)$", re.MULTILINE)
# Lines that can follow an error's own: of tracebacks of Python and of the JVM, and of Spark's explanations.
_NO_HINT = re.compile(r"\s|Traceback|During handling|The above|File |at |JVM|Driver stacktrace|SQLSTATE|$")


class SparkPlace(Struct, frozen=True, kw_only=True):
    """Where jobs run: a master, a server of Spark Connect, or here; `conf` goes to the session."""

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = {}


class Step(Struct, frozen=True):
    """How far a job is: tasks of the stages that run, and rows that they have read or made; None is not known."""

    done_count: int
    task_count: int
    row_count: int | None = None


class Ran(Struct, frozen=True):
    """A job that has run: what came of it, or why nothing did."""

    job: Job
    took_ms: int
    outcome: Outcome | None = None
    error: RmqctlError | None = None


def check_options(jobs: Sequence[Job], options: JobOptions, flags: Mapping[str, str]) -> None:
    """Make sure that each option is for one of the jobs, and that each job has what it needs; `flags` are their names.

    Raises UsageError.
    """
    nothing = JobOptions(now_ms=options.now_ms)
    for name in JobOptions.__struct_fields__:
        if name in _OF_ALL or getattr(options, name) == getattr(nothing, name):
            continue
        if not any(name in job.takes for job in jobs):
            names = ", ".join(job.name for job in jobs)
            raise UsageError(
                f"{flags[name]} means nothing to {names}.", hint="rmqctl pipeline run --help tells whose it is."
            )
    for job in jobs:
        for name in sorted(job.needs):
            if not getattr(options, name):
                raise UsageError(f"The job {job.name} needs {flags[name]}.")
        if job.check is not None:
            job.check(options)


def look_first(jobs: Sequence[Job], options: JobOptions) -> None:
    """Ask the cluster what the jobs want to know before Spark is started, which takes seconds. Raises RmqctlError."""
    looks = [job.look for job in jobs if job.look is not None]
    access = options.access
    if not looks or access is None:
        return

    async def ask() -> None:
        async with await replace(access, timeout_s=min(access.timeout_s, _MOST_LOOK_S)).connect() as client:
            for look in looks:
                await look(client, options)

    asyncio.run(ask())


def run_jobs(
    jobs: Sequence[Job],
    options: JobOptions,
    place: SparkPlace,
    *,
    is_quiet: bool = True,
    on_step: Callable[[Job | None, Step | None], None],
) -> Iterator[Ran]:
    """Start a session, run the jobs in it, and end it; after one that fails none is begun.

    `on_step` hears which job is at work (None while the session starts) and how far it is. With `is_quiet` Spark's own
    words go to a file, which stays where something fails that is not explained. Raises RmqctlError where no session
    comes about.
    """
    on_step(None, None)
    # Under spark-submit the JVM is there already, and says what it says where that was told to.
    with _log_file(is_quiet and not is_submitted()) as log:
        if place.remote is not None and options.access is not None:
            # The server has neither our environment nor our files.
            options = replace(options, access=replace(options.access, given=options.access.credentials()))
        spark = start_session(master=place.master, remote=place.remote, conf=place.conf, log_path=log.path)
        try:
            for job in jobs:
                ran = _run(spark, job, options, log, on_step)
                yield ran
                if ran.error is not None:
                    return
        finally:
            spark.stop()


class _Log:
    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.is_wanted = False


@contextmanager
def _log_file(is_quiet: bool) -> Iterator[_Log]:
    """Give a file for what Spark says; it goes when nothing failed for a reason that only it can tell."""
    if not is_quiet:
        yield _Log(None)
        return
    with tempfile.NamedTemporaryFile(prefix="rmqctl-spark-", suffix=".log", delete=False) as file:
        log = _Log(Path(file.name))
    # What Python's side of Spark logs, such as py4j of a connection that Ctrl-C cut, goes there as well.
    handler = logging.FileHandler(file.name, encoding="utf-8")
    logging.getLogger().addHandler(handler)
    try:
        yield log
    except RmqctlError as error:
        log.is_wanted = type(error) is RmqctlError
        if log.is_wanted and error.hint is None:
            raise error.reworded(error.sentence, hint=f"What Spark said is in {log.path}.") from None
        raise
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
        if log.path is not None and not log.is_wanted:
            log.path.unlink(missing_ok=True)


def _run(
    spark: SparkSession, job: Job, options: JobOptions, log: _Log, on_step: Callable[[Job | None, Step | None], None]
) -> Ran:
    begun_s = time.monotonic()

    def took_ms() -> int:
        return round((time.monotonic() - begun_s) * 1000)

    on_step(job, None)
    try:
        with _watched(spark, lambda step: on_step(job, step)):
            outcome = job.run(spark, options)
    except RmqctlError as error:
        return Ran(job, took_ms(), error=error)
    except Exception as error:  # noqa: BLE001 -- Spark has many: of py4j, of grpc, of its own, of our own inside them
        explained = explain(error)
        if type(explained) is RmqctlError and explained.hint is None and log.path is not None:
            log.is_wanted = True
            with log.path.open("a", encoding="utf-8") as file:
                traceback.print_exception(error, file=file)
            explained = explained.reworded(explained.sentence, hint=f"What Spark said is in {log.path}.")
        explained.__cause__ = error
        return Ran(job, took_ms(), error=explained)
    return Ran(job, took_ms(), outcome)


def explain(error: Exception) -> RmqctlError:
    """Return the error that a text of Spark's tells of: one of ours that a task or a reader raised, or Spark's own.

    Spark keeps an error's text only: the line with its class and sentence, and behind it the hint (see hints.py).
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
    made.sentence = sentence
    made.hint = None if _NO_HINT.match(after) else after.strip()
    return made


_PACKAGE = re.compile(r"^(?:\w+\.)+(?=\w+: )")
_LOST_TASK = re.compile(r"Lost task .*?\): (?:\w+\.)+(\w+: .+)")
_NO_MODULE = (
    "Executors need a Python with rmqctl's libraries: pip install '.[spark]' there;"
    " --conf spark.pyspark.python=FILE names it."
)
_KNOWN = (
    ("PATH_ALREADY_EXISTS", "The path {path} exists already.", "--overwrite replaces what is there."),
    ("TABLE_OR_VIEW_ALREADY_EXISTS", "The table exists already.", "--overwrite replaces what is there."),
    ("OutOfMemoryError", "Spark has too little memory.", "--conf spark.driver.memory=4g gives it more."),
    (
        "Cannot run program", "Spark could not start the Python of its tasks.",
        "What spark.pyspark.python or PYSPARK_PYTHON names must be there on every machine, this one too.",
    ),
    ("No space left on device", "A disk is full.", "--conf spark.local.dir=DIR names another one."),
)  # fmt: skip


def _sparks_own(text: str) -> RmqctlError:
    for mark, sentence, hint in _KNOWN:
        if mark in text:
            path = re.search(r"[Pp]ath (\S+) already exists", text)
            return RmqctlError(sentence.format(path=path.group(1) if path else "").replace("  ", " "), hint=hint)
    if (raised := _python_error(text)) is not None:
        is_missing = raised.startswith("ModuleNotFoundError")
        return RmqctlError(
            f"Spark failed: a Python worker ended with {raised[:300]}", hint=_NO_MODULE if is_missing else None
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):
        # The JVM's error stands below what py4j says of it.
        lines = [_PACKAGE.sub("", lines[1].removeprefix(": "))] if len(lines) > 1 else lines
    first = lines[0] if lines else "no reason given"
    if (failed := _LOST_TASK.search(first)) is not None:
        first = failed.group(1)
    return RmqctlError(f"Spark failed: {first[:300]}")


def _python_error(text: str) -> str | None:
    """Return the line that ends the last traceback of a text, None where there is none."""
    before, mark, after = text.rpartition("Traceback (most recent call last):")
    if not mark:
        return None
    indent = before.rpartition("\n")[2]
    depth = len(indent) if indent.isspace() else 0
    lines = (line for line in after.splitlines() if line.strip())
    return next((line.strip() for line in lines if len(line) - len(line.lstrip()) <= depth), None)


@contextmanager
def _watched(spark: SparkSession, on_step: Callable[[Step], None]) -> Iterator[None]:
    """Have `on_step` hear now and then how far the session's work is, while something runs in the block.

    Connect tells by itself, without rows.
    """
    if not hasattr(spark, "_jsparkSession"):

        def heard(stages: Any, *_more: Any, **_others: Any) -> None:
            on_step(Step(sum(each.num_completed_tasks for each in stages), sum(each.num_tasks for each in stages)))

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
            except Exception:  # noqa: BLE001 -- a look that fails is no reason to fail
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


def _look(spark: SparkSession) -> Step | None:
    """Return how far the stages of the moment are, None where none runs. Rows are those that a source gave."""
    tracker = spark.sparkContext.statusTracker()
    stages = [info for each in tracker.getActiveStageIds() if (info := tracker.getStageInfo(each)) is not None]
    if not stages:
        return None
    return Step(
        sum(info.numCompletedTasks for info in stages), sum(info.numTasks for info in stages), _rows_read(spark)
    )


def _rows_read(spark: SparkSession) -> int | None:
    """Return the rows that the query of the moment has read, as Spark's own pages would show them."""
    store = spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001 -- nothing public tells rows
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
