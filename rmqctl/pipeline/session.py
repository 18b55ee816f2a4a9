"""A Spark session set up for Python sources: on this machine, on a cluster, or a server of Spark Connect."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rmqctl.errors import RmqctlError, UnreachableError, UsageError

from . import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "rmqctl"
# What a session is given unless it is told otherwise, and why.
_DEFAULTS = {
    # Times are written and shown as UTC, whatever the machine's zone is.
    "spark.sql.session.timeZone": "UTC",
    # Overwriting an hour of a table leaves the others.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # A task that is run twice at once would send, or write, twice.
    "spark.speculation": "false",
    # Half the time of a small task is that of its connection to Python.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_DEFAULTS_HERE = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # 200 tasks, as on a cluster, would cost more than their work.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.ui.showConsoleProgress": "false",
}
_JAVA = "Install Java 17 or newer (JAVA_HOME or PATH leads to it), or name a Spark Connect server with --remote."


def start_session(
    *, master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None, name: str = _NAME
) -> SparkSession:
    """Return a session in which format("rocketmq") is known.

    Without `master` and `remote` (sc://host:port) it runs in this process on all cores; a task that fails is run
    again, up to four times. Raises UsageError where Spark or Java is missing, UnreachableError for a server that does
    not answer.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("PySpark is not installed.", hint="pip install 'rmqctl[spark]' installs it.") from None
    if (remote or master or "local").startswith("local"):
        # Else workers take whatever python3 is, which may not have what is installed here.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = dict(_DEFAULTS)
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
        # These belong to the server's own start.
        settings = {key: value for key, value in settings.items() if key.startswith("spark.sql.")}
    else:
        _require_java()
        master = master or os.environ.get("SPARK_MASTER") or f"local[{os.cpu_count() or 1},4]"
        builder = builder.master(master)
        if master.startswith("local"):
            settings |= _DEFAULTS_HERE
    for key, value in {**settings, **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
        if remote is not None:
            # Connect asks nobody before the first question.
            _ = spark.version
    except Exception as error:  # noqa: BLE001 -- py4j, grpc and pyspark each have their own
        raise _explained(error, remote) from None
    register(spark)
    return spark


def _require_java() -> None:
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else shutil.which("java")
    if java is None or not Path(java).exists():
        raise UsageError("Spark needs Java, and there is none.", hint=_JAVA)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = said.partition('"')[2].partition('"')[0]
    major = version.removeprefix("1.").partition(".")[0]
    if major.isdigit() and int(major) < 17:
        raise UsageError(f"Spark needs Java 17 or newer, and {java} is {version}.", hint=_JAVA)


def _explained(error: Exception, remote: str | None) -> RmqctlError:
    said = " ".join(str(error).split())
    if remote is not None:
        if "UNAVAILABLE" in said or "failed to connect" in said.lower():
            return UnreachableError(remote, "no Spark Connect server answers there")
        if isinstance(error, ImportError):
            return UsageError("Spark Connect needs packages that are missing.", hint="pip install 'rmqctl[spark]'.")
    return RmqctlError(f"Spark did not start: {said[:300]}")
