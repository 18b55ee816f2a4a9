"""`broker show` and `cluster list` against a real master with its slave, with mqadmin as the second opinion."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator

import pytest

from .harness.cluster import Cluster
from .harness.jars import VERSIONS
from .harness.rmqctl import Rmqctl

# A secret in the file that a broker is started with: it hands out the whole file.
_SECRET = "n0t-to-be-shown"


@pytest.fixture(scope="module", params=VERSIONS)
def replicated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("brokers") / "home"
    credentials = json.dumps({"accessKey": "inner", "secretKey": _SECRET}, separators=(",", ":"))
    settings = {
        "innerClientAuthenticationCredentials": credentials,
        "accessKey": _SECRET,
        # 5.x makes a user of the credentials, and needs to know where.
        "authenticationMetadataProvider": (
            "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
        ),
    }
    cluster = Cluster(request.param, folder, with_slaves=True, settings=settings)
    try:
        cluster.wait()
        cluster.create_topic("Shown", queue_count=2)
        cluster.java.produce("Shown", 30)
        cluster.java.produce("Shown", 6, delay=10)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def rmqctl(replicated: Cluster) -> Rmqctl:
    return Rmqctl(replicated.namesrv)


def _rows(printed: str) -> dict[str, str]:
    """Read "name : value" and "name = value" lines."""
    return {match[1]: match[2].strip() for match in re.finditer(r"^(\S+)\s*[:=] (.*)$", printed, re.MULTILINE)}


def _steady_names(table: Iterable[str]) -> set[str]:
    """Leave out names with a path, whose rows are read otherwise, and delay levels, which come with a first scan."""
    return {name for name in table if "/" not in name and not name.startswith("scheduleMessageOffset_")}


def test_the_runtime_table_equals_mqadmins(replicated: Cluster, rmqctl: Rmqctl) -> None:
    address = replicated.brokers["broker-a"].address
    give_up_at = time.monotonic() + 30
    while True:
        printed = _rows(replicated.java.mqadmin("brokerStatus", "-b", address))
        (item,) = rmqctl.items("broker", "show", "broker-a", address, "--runtime")
        # A broker that has just started comes to know some of it one after the other.
        if _steady_names(item["runtime"]) == _steady_names(printed) or time.monotonic() > give_up_at:
            break

    # The rest moves between the two questions: rates, times, and what the probes of the test itself cost.
    steady = {"brokerVersionDesc", "bootTimestamp", "commitLogMinOffset", "commitLogMaxOffset", "msgPutTotalTodayNow",
              "earliestMessageTimeStamp", "dispatchBehindBytes", "sendThreadPoolQueueCapacity"}  # fmt: skip
    assert {name: item["runtime"][name] for name in steady} == {name: printed[name] for name in steady}
    assert _steady_names(item["runtime"]) == _steady_names(printed)


def test_what_is_read_from_the_table_is_in_numbers(replicated: Cluster, rmqctl: Rmqctl) -> None:
    is_old = replicated.version.startswith("4.")
    give_up_at = time.monotonic() + 20
    items = rmqctl.items("broker", "show", "broker-a")
    # 5.x names a delay level once it has looked at it, 4.9 after the first delivery from it.
    while not is_old and not items[0]["delayLevels"] and time.monotonic() < give_up_at:
        items = rmqctl.items("broker", "show", "broker-a")
    master, slave = items

    assert [(item["brokerId"], item["role"]) for item in items] == [(0, "master"), (1, "slave")]
    assert master["version"] == replicated.version
    # 5.x counts a delayed message when it is delivered, 4.9 when it comes as well.
    assert master["putTodayCount"] == (36 if is_old else 30)
    assert 0 < master["commitLogDiskRatio"] < 1
    assert master["commitLogMinOffset"] == 0 < master["commitLogMaxOffset"]
    if is_old:
        # It reads two largest messages at once to find the oldest, and can't before it has 8 MiB.
        assert master["reasons"]["earliestMessageTimeStamp"] == "NOT_REPORTED"
    else:
        assert abs(time.time() * 1000 - master["earliestMessageTimeStamp"]) < 600_000
    assert 0 < master["uptimeMs"] < 600_000
    assert {pool["pool"] for pool in master["threadPools"]} >= {"send", "pull", "query", "endTransaction"}
    levels = [(each["level"], each["delay"], each["maxOffset"], each["backlog"]) for each in master["delayLevels"]]
    assert levels == ([] if is_old else [(10, "6m", 6, 6)])
    assert (master["settings"]["fileReservedTime"], slave["settings"]["brokerPermission"]) == ("72", "6")
    if not is_old:
        assert (master["brokerActive"], master["timerCongestNum"]) == (True, 0)


def test_the_configuration_equals_mqadmins_but_for_secrets(replicated: Cluster, rmqctl: Rmqctl) -> None:
    address = replicated.brokers["broker-a"].address
    printed = _rows(replicated.java.mqadmin("getBrokerConfig", "-b", address))
    result = rmqctl("broker", "show", address, "--config", "-o", "json")
    (item,) = result.document["items"]

    assert result.exit_code == 0
    assert _SECRET in printed.values()
    hidden = {name for name, value in item["config"].items() if value == "(redacted)"}
    assert hidden == {"accessKey", "innerClientAuthenticationCredentials"}
    assert {name: value for name, value in item["config"].items() if name not in hidden} == {
        name: value for name, value in printed.items() if name not in hidden
    }
    for form in ("json", "wide", "yaml"):
        shown = rmqctl("broker", "show", "broker-a", "--config", "--runtime", "-o", form)
        assert _SECRET not in shown.stdout + shown.stderr


def test_a_slaves_differences_are_shown(replicated: Cluster, rmqctl: Rmqctl) -> None:
    replicated.java.mqadmin(
        "updateBrokerConfig", "-b", replicated.slaves["broker-a"].address, "-k", "fileReservedTime", "-v", "48"
    )
    slave = rmqctl.items("broker", "show", "broker-a")[1]
    shown = rmqctl("broker", "show", "broker-a").stdout

    differing = {each["name"]: (each["master"], each["here"]) for each in slave["configDifferences"]}
    assert differing["fileReservedTime"] == ("72", "48")
    assert ["fileReservedTime", "72", "48"] in [line.split() for line in shown.splitlines()]
    # Whatever else is told apart must really be otherwise, and must be no name of the place.
    assert not {"brokerId", "brokerRole", "listenPort", "storePathRootDir"} & set(differing)


def test_cluster_list_equals_mqadmin(replicated: Cluster, rmqctl: Rmqctl) -> None:
    printed = replicated.java.mqadmin("clusterList")
    totals = replicated.java.mqadmin("clusterList", "-m")
    items = rmqctl.items("cluster", "list")

    rows = re.findall(r"^DefaultCluster\s+(\S+)\s+(\d+)\s+(\S+)\s+V(\S+)\s", printed, re.MULTILINE)
    assert [
        (item["brokerName"], str(item["brokerId"]), item["brokerAddr"], item["version"].replace(".", "_"))
        for item in items
    ] == rows
    master = items[0]
    counted = re.search(r"^DefaultCluster\s+broker-a\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", totals, re.MULTILINE)
    assert counted is not None
    names = ("putYesterdayCount", "getYesterdayCount", "putTodayCount", "getTodayCount")
    assert [str(master[name]) for name in names] == list(counted.groups())
    assert (master["sendThreadPoolQueueSize"], master["pageCacheLockTimeMills"]) == (0, 0)
    if replicated.version.startswith("4."):
        assert master["reasons"]["timerCongestNum"] == "NOT_REPORTED"
    else:
        assert (master["timerCongestNum"], master["brokerActive"]) == (0, True)


def test_a_broker_that_is_down_has_its_error_and_the_rest_is_shown(replicated: Cluster, rmqctl: Rmqctl) -> None:
    slave = replicated.slaves["broker-a"].java
    assert slave is not None
    slave.pause()
    try:
        result = rmqctl("broker", "show", "broker-a", "--timeout", "3s")
    finally:
        slave.resume()

    assert result.exit_code == 8, result.stderr
    assert "broker-a: master 0" in result.stdout
    assert ["error", "TIMED_OUT"] in [line.split() for line in result.stdout.splitlines()]
    assert rmqctl("broker", "show", "broker-x").exit_code == 5
