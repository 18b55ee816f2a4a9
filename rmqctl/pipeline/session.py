"""A Spark session set up for Python sources: on this machine, on a cluster, or on a Spark Connect server."""

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
from .package import write_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTALL = "Run pip install '.[{extra}]' in a checkout of rmqctl."
_NAME = "rmqctl"
# Default settings of a session, and the reasons.
_DEFAULTS = {
    # Times are written and shown as UTC, whatever the machine's zone is.
    "spark.sql.session.timeZone": "UTC",
    # Otherwise times are INT96, a legacy type for other readers, without statistics for skipping files.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A task that runs twice at the same time would send or write twice.
    "spark.speculation": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_DEFAULTS_HERE = {
    # Half the time of a small task is for its connection to Python. Not on clusters: folders of YARN's containers have
    # longer paths than such a socket may have.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # 200 tasks, as on a cluster, would cost more than their work.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.ui.showConsoleProgress": "false",
}
# How long a Spark Connect server may take to answer.
_SERVER_S = 10
_PYTHON = "spark.pyspark.python"
_MODULES = {"pyspark": "PySpark", "pyarrow": "PyArrow", "numpy": "NumPy", "pandas": "pandas"}
# Folders with what was sent to executors.
_sent: list[str] = []
_JAVA = "Install Java 17 or newer (found by JAVA_HOME or PATH), or use a Spark Connect server with --remote."


def start_session(
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
    name: str = _NAME,
    log_path: Path | None = None,
) -> SparkSession:
    """Return a session in which format("rocketmq") is registered.

    Without `master` and `remote` (sc://host:port) it runs in this process on all cores, with up to four attempts per
    task. Executors on other machines receive this version of rmqctl. Under spark-submit the session is the one
    configured there. The output of Spark and its workers goes to `log_path`, else to stderr. Raises UsageError when
    Spark or Java is missing, UnreachableError for a server that does not answer.
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
            # Otherwise workers use python3, which may lack the packages that are installed here.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if conf is not None and _PYTHON in conf:
            # Only spark-submit reads the setting; PySpark alone reads the variable.
            os.environ["PYSPARK_PYTHON"] = conf[_PYTHON]
    if remote is not None:
        builder = builder.remote(remote)
        # The other settings belong to the start of the server.
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
                # Connect does not contact the server before the first request.
                _ = spark.version
            if not is_submitted() and _has_executors(remote or str(master)):
                _send_rmqctl(spark)
    except Exception as error:  # noqa: BLE001 -- py4j, grpc and pyspark each have their own
        raise _explained(error, remote, master) from None
    register(spark)
    return spark


def _has_executors(master: str) -> bool:
    """Return whether tasks run in their own processes, and not in this one."""
    return master != "local" and not master.startswith("local[")


def _send_rmqctl(spark: SparkSession) -> None:
    """Send rmqctl to executors, or to a Spark Connect server for this session.

    Executors fetch it when they start, so it stays until delete_sent().
    """
    folder = tempfile.mkdtemp(prefix="rmqctl-spark-")
    _sent.append(folder)
    archive, _ = write_package(Path(folder))
    if hasattr(spark, "_jsparkSession"):
        spark.sparkContext.addPyFile(str(archive))
    else:
        spark.addArtifacts(str(archive), pyfile=True)


def delete_sent() -> None:
    """Delete what was sent to executors. To be called once no session needs it; also at the end of this process."""
    while _sent:
        shutil.rmtree(_sent.pop(), ignore_errors=True)


# A command ends without running this: it calls delete_sent() itself.
atexit.register(delete_sent)


def require_spark(remote: str | None = None) -> None:
    """Raise UsageError when PySpark or one of its packages is missing, or Java for a session on this machine."""
    require_modules(_MODULES)
    if not is_submitted() and (remote is None or remote.startswith("local")):
        _require_java()


def require_tables() -> None:
    """Raise UsageError when a package is missing that tables need; they do not need Spark."""
    require_modules({"deltalake": "deltalake", "pyarrow": "PyArrow"}, extra="tables")


def require_modules(names: Mapping[str, str], *, extra: str = "spark") -> None:
    """Raise UsageError when a module is missing; `names` are their packages by module, and `extra` has them."""
    for module, name in names.items():
        if find_spec(module) is None:
            raise UsageError(f"{name} is not installed.", hint=_INSTALL.format(extra=extra))


def _require_server(remote: str) -> None:
    """Make sure that a server answers: Connect itself would retry for ten minutes."""
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        channel = DefaultChannelBuilder(remote).toChannel()
    except PySparkException as error:
        raise UsageError(
            f"Invalid --remote {remote!r}.", hint="Use the address of a Spark Connect server, e.g. sc://HOST:15002."
        ) from error
    try:
        grpc.channel_ready_future(channel).result(timeout=_SERVER_S)
    except grpc.FutureTimeoutError:
        raise UnreachableError(remote, "no Spark Connect server answers") from None
    finally:
        channel.close()


def is_submitted() -> bool:
    """Return whether spark-submit has started this process, which then has a JVM and its own settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _launch_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM unless it runs. Ctrl-C takes effect afterwards: PySpark would leave a JVM behind."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with _interrupts_later():
        SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 -- no public API starts only the JVM


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Delay Ctrl-C until the block ends."""
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
    """Redirect the output of a JVM that starts in the block, and of its workers, to a file.

    Spark's launcher and its JVM write to the stdout and stderr that they inherit, before they read any log setting.
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
        home = os.environ.get("JAVA_HOME")
        if home:
            raise UsageError(f"Spark needs Java, but JAVA_HOME is {home}, which has no bin/java.", hint=_JAVA)
        raise UsageError("Spark needs Java, which is not installed.", hint=_JAVA)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = said.partition('"')[2].partition('"')[0]
    major = version.removeprefix("1.").partition(".")[0]
    if major.isdigit() and int(major) < 17:
        raise UsageError(f"Spark needs Java 17 or newer, but {java} is {version}.", hint=_JAVA)


def _explained(error: Exception, remote: str | None, master: str | None) -> RmqctlError:
    said = " ".join(str(error).split())
    if master is not None and master.startswith("spark:") and "stopped SparkContext" in said:
        return UnreachableError(master, "no Spark master answers")
    if remote is not None:
        if "UNAVAILABLE" in said or "failed to connect" in said.lower():
            return UnreachableError(remote, "no Spark Connect server answers")
        if isinstance(error, ImportError):
            return UsageError("Spark Connect needs packages that are missing.", hint=_INSTALL.format(extra="spark"))
    return RmqctlError(f"Spark did not start: {said[:300]}")
