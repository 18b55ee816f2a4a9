"""Apache's own client suites end on the sandbox as on real brokers with the suites' own settings, test by test.

They are the classes of org.apache.rocketmq.test that use brokers through clients. Their base class starts servers in
its own process; tests/real/java/suites has one in its stead that finds those of this test.
"""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from rmqctl.sandbox.profile import find_profile
from rmqctl.sandbox.settings import obeyed_names

from .harness.cluster import Cluster, Reachable
from .harness.jars import VERSIONS, rocketmq_jars, suite_classes, suite_jars
from .harness.process import BROKER_OPENS, QUICK_START
from .harness.sandbox import SandboxProcess

# Whose suites a release runs: Maven Central has none of 5.4.0.
_SUITES = {"5.4.0": "5.5.0", "4.9.7": "4.9.7"}
_PACKAGES = (
    "client.consumer.balance", "client.consumer.broadcast", "client.consumer.cluster", "client.consumer.filter",
    "client.consumer.tag", "client.consumer.topic", "client.producer.async", "client.producer.batch",
    "client.producer.exception", "client.producer.oneway", "client.producer.order", "client.producer.querymsg",
    "client.producer.transaction", "delay",
    *(pytest.param(name, marks=pytest.mark.since_5) for name in ("client.consumer.pop", "offset", "recall", "retry")),
)  # fmt: skip
# IntegrationTestBase of the two.
_COMMON = {
    "enablePropertyFilter": "true", "mappedFileSizeCommitLog": str(100 * 1024 * 1024), "maxIndexNum": "1000",
    "maxHashSlotNum": "4000",
}  # fmt: skip
_SETTINGS = {
    "4.9.7": _COMMON,
    "5.4.0": {
        **_COMMON, "enableCalcFilterBitMap": "true", "enableConsumeQueueExt": "true", "appendAckAsync": "true",
        "appendCkAsync": "true", "recallMessageEnable": "true", "popConsumerKVServiceInit": "true",
        "loadBalancePollNameServerInterval": "500", "maxTransferCountOnMessageInMemory": "1024",
        "maxTransferCountOnMessageInDisk": "1024", "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    },
}  # fmt: skip
_ATTEMPTS = 3
# What cannot be compared, with the reason; so are the packages container, dledger, grpc, route, smoke (they start and
# change servers), statictopic and tls (the sandbox has neither).
_LEFT_OUT = {
    "BaseBroadCastIT": "has no tests",
    "NotificationIT": "needs the client of 5.5",
    "OffsetNotFoundIT": "hooks into the brokers of its own process",
    "testEstimateLag": "reads the filters of the brokers of its own process",
    "testResetOffsetThenAckOldForPopOrderly": "reads the locks of the brokers of its own process",
    "testRestOffsetToSkipMsgForPopOrderly": "reads the locks of the brokers of its own process",
}
# What passes on real brokers only: batches that are stored as one message, of rmqctl/sandbox/GAPS.md.
_GAPS = {"org.apache.rocketmq.test.client.producer.batch.BatchSendIT#testBatchSend_SysInnerBatch"}


class Pair(NamedTuple):
    """A real cluster and the sandbox that plays its release, with the same settings."""

    real: Cluster
    sandbox: SandboxProcess


@pytest.fixture(scope="module", params=VERSIONS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    version = request.param
    folder = tmp_path_factory.mktemp(f"suites-{version}")
    count = 2 if version == "4.9.7" else 3
    real = Cluster(version, folder / "real", broker_count=count, settings=_SETTINGS[version])
    sandbox = SandboxProcess(version, folder / "sandbox", broker_count=count, settings=_obeyed(version))
    try:
        real.wait()
        yield Pair(real, sandbox)
    finally:
        real.stop()
        sandbox.stop()


def _obeyed(version: str) -> dict[str, str]:
    """Return the settings that the sandbox has: the others are about a real store's files."""
    names = obeyed_names(find_profile(version))
    return {name: value for name, value in _SETTINGS[version].items() if name in names}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("package", _PACKAGES)
def test_a_suite_ends_on_the_sandbox_as_on_real_brokers(pair: Pair, package: str) -> None:
    on_real: dict[str, str] = {}
    on_sandbox: dict[str, str] = {}
    for name in class_names(pair.real.version, package):
        on_real |= outcomes(pair.real, name)
        on_sandbox |= outcomes(pair.sandbox, name)

    assert on_sandbox == {name: "fail" if name in _GAPS else outcome for name, outcome in on_real.items()}


def class_names(version: str, package: str) -> list[str]:
    """Return the classes with tests of a package and of those below it."""
    suites = _SUITES[version]
    with zipfile.ZipFile(suite_jars(suites) / f"rocketmq-test-{suites}-tests.jar") as jar:
        names = [path.removesuffix(".class").replace("/", ".") for path in jar.namelist() if path.endswith("IT.class")]
    prefix = f"org.apache.rocketmq.test.{package}."
    return sorted(name for name in names if name.startswith(prefix) and name.rpartition(".")[2] not in _LEFT_OUT)


def outcomes(servers: Reachable, class_name: str) -> dict[str, str]:
    """Run a class; return how each test ended. One that failed is run alone until it passes, three times at most."""
    ended = run(servers, class_name)
    for name in [name for name, outcome in ended.items() if outcome == "fail" and name not in _GAPS]:
        for _ in range(_ATTEMPTS - 1):
            if ended[name] == "fail":
                ended |= run(servers, name)
    return ended


def run(servers: Reachable, name: str) -> dict[str, str]:
    """Run a class, or one of its tests, in a JVM of its own."""
    version, suites = servers.version, _SUITES[servers.version]
    classpath = (
        str(suite_classes(version, suites)), f"{suite_jars(suites)}/*", f"{rocketmq_jars(version)}/*"
    )  # fmt: skip
    with (servers.folder / "suites.log").open("ab") as log:
        printed = subprocess.run(
            ["java", "-Xmx512m", *QUICK_START, *BROKER_OPENS, f"-Duser.home={servers.folder}",
             f"-Djava.io.tmpdir={servers.folder}", f"-Dsuite.namesrv={servers.namesrv}",
             "-cp", os.pathsep.join(classpath), "SuiteRunner", name],
            stdout=subprocess.PIPE, stderr=log, text=True, check=True, timeout=900, cwd=servers.folder,
        ).stdout  # fmt: skip
    rows = [line.split("\t") for line in printed.splitlines()]
    return {test: outcome for outcome, test, _ in rows if test.rpartition("#")[2] not in _LEFT_OUT}
