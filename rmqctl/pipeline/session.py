"""A Spark session set up for Python sources: on this machine, on a cluster, or a server of Spark Connect."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rmqctl.errors import RmqctlError, UnreachableError, UsageError

from . import register
from .packaging import write_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTALL = "In a checkout of rmqctl: pip install '.[spark]'."
_NAME = "rmqctl"
# What a session is given unless it is told otherwise, and why.
_DEFAULTS = {
    # Times are written and shown as UTC, whatever the machine's zone is.
    "spark.sql.session.timeZone": "UTC",
    # Overwriting an hour of a table leaves the others.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Else times are INT96, which other readers know as a legacy, and which has no statistics to skip files by.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A task that is run twice at once would send, or write, twice.
    "spark.speculation": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_DEFAULTS_HERE = {
    # Half the time of a small task is that of its connection to Python. Not on clusters: folders of YARN's containers
    # have longer paths than such a socket may have.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # 200 tasks, as on a cluster, would cost more than their work.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.ui.showConsoleProgress": "false",
}
# How long a server of Spark Connect may take to answer.
_SERVER_S = 10
_PYTHON = "spark.pyspark.python"
_MODULES = {"pyspark": "PySpark", "pyarrow": "PyArrow", "numpy": "NumPy", "pandas": "pandas"}
_JAVA = "Install Java 17 or newer (JAVA_HOME or PATH leads to it), or name a Spark Connect server with --remote."


def start_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
    name: str = _NAME,
    log_path: Path | None = None,
) -> SparkSession:
    """Return a session in which format("rocketmq") is known.

    Without `master` and `remote` (sc://host:port) it runs in this process on all cores; a task that fails is run
    again, up to four times. Executors elsewhere are sent rmqctl, in this version. Under spark-submit the session is the
    one that was asked for there. What Spark and its workers say goes to `log_path`, else to stderr. Raises UsageError
    where Spark or Java is missing, UnreachableError for a server that does not answer.
    """
    require_spark(remote)
    from pyspark.sql import SparkSession

    settings = dict(_DEFAULTS)
    builder = SparkSession.builder.appName(name)
    if not is_submitted():
        if remote is None:
            master = master or os.environ.get("SPARK_MASTER") or f"local[{os.cpu_count() or 1},4]"
            builder = builder.master(master)
        if (remote or master or "").startswith("local"):
            settings |= _DEFAULTS_HERE
            # Else workers take whatever python3 is, which may not have what is installed here.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if conf is not None and _PYTHON in conf:
            # Only spark-submit heeds the setting; PySpark by itself has the variable.
            os.environ["PYSPARK_PYTHON"] = conf[_PYTHON]
    if remote is not None:
        builder = builder.remote(remote)
        # The others belong to the server's own start.
        settings = {key: value for key, value in settings.items() if key.startswith("spark.sql.")}
    settings |= conf or {}
    for key, value in settings.items():
        builder = builder.config(key, value)
    if remote is not None and not remote.startswith("local"):
        _require_server(remote)
    try:
        with _said_to(log_path):
            if remote is None:
                _launch_jvm({"spark.master": master, **settings} if master is not None else settings)
            spark = builder.getOrCreate()
            if remote is not None:
                # Connect asks nobody before the first question.
                _ = spark.version
            if not is_submitted() and _has_executors(remote or str(master)):
                _send_rmqctl(spark)
    except Exception as error:  # noqa: BLE001 -- py4j, grpc and pyspark each have their own
        raise _explained(error, remote, master) from None
    register(spark)
    return spark


def _has_executors(master: str) -> bool:
    """Tell whether tasks run in processes of their own, and not in this one."""
    return master != "local" and not master.startswith("local[")


def _send_rmqctl(spark: SparkSession) -> None:
    """Have executors, or a server of Spark Connect for this session, take rmqctl from here.

    Executors ask for it when they begin, so it stays until this process ends.
    """
    folder = tempfile.mkdtemp(prefix="rmqctl-spark-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive, _ = write_package(Path(folder))
    if hasattr(spark, "_jsparkSession"):
        spark.sparkContext.addPyFile(str(archive))
    else:
        spark.addArtifacts(str(archive), pyfile=True)


def require_spark(remote: str | None = None) -> None:
    """Raise UsageError where PySpark or what it needs, or for a session of this machine Java, is missing."""
    for module, name in _MODULES.items():
        if find_spec(module) is None:
            raise UsageError(f"{name} is not installed.", hint=_INSTALL)
    if not is_submitted() and (remote is None or remote.startswith("local")):
        _require_java()


def _require_server(remote: str) -> None:
    """Make sure that a server answers: Connect itself would try again and again for ten minutes."""
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        channel = DefaultChannelBuilder(remote).toChannel()
    except PySparkException as error:
        raise UsageError(
            f"--remote {remote!r} is no address of Spark Connect.", hint="Such as sc://HOST:15002."
        ) from error
    try:
        grpc.channel_ready_future(channel).result(timeout=_SERVER_S)
    except grpc.FutureTimeoutError:
        raise UnreachableError(remote, "no Spark Connect server answers there") from None
    finally:
        channel.close()


def is_submitted() -> bool:
    """Tell whether spark-submit has started this process: it has a JVM then, and settings of its own."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _launch_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM where there is none yet. Ctrl-C takes effect after that: PySpark would leave a JVM behind."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with _interrupts_later():
        SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 -- nothing public starts the JVM alone


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Keep Ctrl-C back until the block is over."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt


@contextmanager
def _said_to(path: Path | None) -> Iterator[None]:
    """Let a JVM that is started meanwhile, and the workers that it starts, write what they say to a file.

    Spark's launcher and its JVM write to the stdout and stderr that they inherit, before any setting of a log is read.
    """
    if path is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    own = [os.dup(number) for number in (1, 2)]
    with path.open("ab") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), own, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def _require_java() -> None:
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else shutil.which("java")
    if java is None or not Path(java).exists():
        raise UsageError("Spark needs Java, and there is none.", hint=_JAVA)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = said.partition('"')[2].partition('"')[0]
    major = version.removeprefix("1.").partition(".")[0]
    if major.isdigit() and int(major) < 17:
        raise UsageError(f"Spark needs Java 17 or newer, and {java} is {version}.", hint=_JAVA)


def _explained(error: Exception, remote: str | None, master: str | None) -> RmqctlError:
    said = " ".join(str(error).split())
    if master is not None and master.startswith("spark:") and "stopped SparkContext" in said:
        return UnreachableError(master, "no Spark master answers there")
    if remote is not None:
        if "UNAVAILABLE" in said or "failed to connect" in said.lower():
            return UnreachableError(remote, "no Spark Connect server answers there")
        if isinstance(error, ImportError):
            return UsageError("Spark Connect needs packages that are missing.", hint=_INSTALL)
    return RmqctlError(f"Spark did not start: {said[:300]}")
