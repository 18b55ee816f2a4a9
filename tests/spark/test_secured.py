"""format("rocketmq") over TLS, signed, both ways; and what is said to others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.real.harness.jars import VERSIONS
from tests.real.harness.secured_cluster import ADMIN, STRANGER, TOPIC, Account, SecuredCluster


@pytest.fixture(scope="module", params=VERSIONS)
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Run a broker behind TLS and accounts; 4.9.7 wants certificates of clients as well."""
    version = request.param
    folder = tmp_path_factory.mktemp(f"secured-{version}") / "home"
    running = SecuredCluster(version, folder, client_certificates="require" if version == "4.9.7" else "none")
    try:
        yield running.wait()
    finally:
        running.stop()


def _options(secured: SecuredCluster, account: Account | None) -> dict[str, Any]:
    files = secured.certificates
    options = {"nameServers": secured.namesrv, "topic": TOPIC, "rocketmq.tls.ca": str(files.ca)}
    if secured.version == "4.9.7":
        options |= {"rocketmq.tls.cert": str(files.client), "rocketmq.tls.key": str(files.client_key)}
    if account is not None:
        options |= {"rocketmq.accessKey": account.access_key, "rocketmq.secretKey": account.secret_key}
    return options


def test_rows_go_there_and_come_back_over_tls_and_signed(secured: SecuredCluster, spark: SparkSession) -> None:
    options = _options(secured, ADMIN)
    rows = spark.range(40).selectExpr("string(id) as body", "'A' as tags").repartition(2)
    rows.write.format("rocketmq").options(**options).mode("append").save()
    read = spark.read.format("rocketmq").options(**options).option("minPartitions", 3).load()
    assert sorted(int(row.body) for row in read.collect()) == list(range(40))
    # Plans are shown in Spark's pages and logs.
    plan = read._jdf.queryExecution().toString() if hasattr(read, "_jdf") else ""
    assert ADMIN.secret_key not in plan


def test_a_file_of_credentials_does_as_well(secured: SecuredCluster, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text(f"accessKey: {ADMIN.access_key}\nsecretKey: {ADMIN.secret_key}\n")
    rows = spark.range(3).selectExpr("concat('file', id) as body")
    options = {**_options(secured, None), "rocketmq.credentials": str(path)}
    rows.write.format("rocketmq").options(**options).mode("append").save()
    bodies = {row.body for row in spark.read.format("rocketmq").options(**options).load().collect()}
    assert bodies >= {b"file0", b"file1", b"file2"}


@pytest.mark.parametrize("account", [STRANGER, Account(ADMIN.access_key, "wrong"), None])
def test_who_may_not_is_told_so(secured: SecuredCluster, spark: SparkSession, account: Account | None) -> None:
    with pytest.raises(PySparkException, match="NotAuthorisedError") as raised:
        spark.read.format("rocketmq").options(**_options(secured, account)).load().count()
    assert ADMIN.secret_key not in str(raised.value)


def test_a_certificate_that_nobody_vouches_for_ends_it(secured: SecuredCluster, spark: SparkSession) -> None:
    options = {**_options(secured, ADMIN)}
    del options["rocketmq.tls.ca"]
    with pytest.raises(PySparkException, match="certificate"):
        spark.read.format("rocketmq").options(**options).option("rocketmq.tls", "true").load().count()
