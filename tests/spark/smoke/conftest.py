"""The sandbox in place of RocketMQ: two brokers for all tests, each of which has topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.spark.conftest import Read, reader
from tests.spark.smoke.smoke_data import PATIENT


@pytest.fixture(scope="session")
def sandbox() -> Iterator[ThreadedSandbox]:
    """Run the sandbox. Its time stands still, so that tests know store times to the millisecond."""
    with ThreadedSandbox(brokers=2, virtual_clock=True) as running:
        yield running


@pytest.fixture
def read(spark: SparkSession, sandbox: ThreadedSandbox) -> Read:
    """Read topics of the sandbox, as the fixture for the real cluster does."""
    return reader(spark, sandbox.addr, **PATIENT)
