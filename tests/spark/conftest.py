"""One Spark session for all tests, and a real cluster; see the Makefile for the virtual environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark", reason="make test-spark runs these where PySpark is")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

from rmqctl.pipeline.session import start_session  # noqa: E402
from tests.real.harness.cluster import Cluster  # noqa: E402
from tests.real.harness.jars import VERSIONS, missing_tools  # noqa: E402

Read = Callable[..., DataFrame]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = missing_tools()
    for item in items:
        item.add_marker(pytest.mark.timeout(300))
        if missing is not None:
            if os.environ.get("CI") == "true":
                raise pytest.UsageError(missing)
            item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
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

    def load(topic: str, schema: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("rocketmq").option("nameServers", cluster.namesrv).option("topic", topic)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**options).load()

    return load
