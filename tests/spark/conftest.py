"""One Spark session for all tests, and a real cluster; see the Makefile for the virtual environment.

Tests in smoke/ run against the sandbox: they need Java for Spark, and neither Maven nor RocketMQ.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark", reason="make test-spark runs these where PySpark is")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

from rmqctl.errors import UsageError  # noqa: E402
from rmqctl.pipeline.session import require_spark, start_session  # noqa: E402
from tests.real.harness.cluster import Cluster  # noqa: E402
from tests.real.harness.jars import VERSIONS, missing_tools  # noqa: E402

Read = Callable[..., DataFrame]


_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if _HERE in item.path.parents]
    smoke = [item for item in ours if _HERE / "smoke" in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.timeout(300))
    if smoke:
        _require(smoke, _missing_java())
    if len(smoke) < len(ours):
        _require([item for item in ours if item not in smoke], missing_tools())


def _missing_java() -> str | None:
    try:
        require_spark()
    except UsageError as error:
        return f"{error.sentence} Install a JDK 17 for the Spark smoke"
    return None


def _require(items: list[pytest.Item], missing: str | None) -> None:
    """Skip tests that lack something; with CI=true nothing may be skipped, so that is an error."""
    if missing is None:
        return
    if os.environ.get("CI") == "true":
        raise pytest.UsageError(missing)
    for item in items:
        item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        # Spark's processes take the environment of the session's start.
        patch.setenv("RMQCTL_STATE", str(tmp_path_factory.mktemp("state")))
        session = start_session(master="local[2,2]", name="tests")
    yield session
    session.stop()


@pytest.fixture(scope="session", params=VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster of two brokers."""
    folder = tmp_path_factory.mktemp(f"rocketmq-{request.param}") / "home"
    running = Cluster(request.param, folder, broker_count=2, settings={"enablePropertyFilter": "true"})
    try:
        yield running.wait()
    finally:
        running.stop()


@pytest.fixture
def read(spark: SparkSession, cluster: Cluster) -> Read:
    """Read topics of the cluster: read("Orders", tags="A"), with `schema` for some columns."""
    return reader(spark, cluster.namesrv)


def reader(spark: SparkSession, namesrv: str, **every: str) -> Read:
    """Return what reads topics from there; `every` are options of each read."""

    def load(topic: str | None = None, schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("rocketmq").option("nameServers", namesrv).options(**every)
        if topic is not None:
            reader = reader.option("topic", topic)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**options).load()

    return load
