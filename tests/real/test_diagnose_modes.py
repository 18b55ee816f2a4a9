"""What `rmqctl diagnose` says of a group in which some members pop and others pull."""

from __future__ import annotations

import pytest

from tests.real.harness.conditions import wait_until
from tests.real.harness.diagnose_case import LIMIT_S, Found, codes, diagnose

from .harness.cluster import Cluster
from .harness.rmqctl import Rmqctl
from .harness.workbench import Workbench

_GROUP = "DiagModes"


@pytest.mark.timeout(LIMIT_S)
def test_a_queue_that_one_member_pops_and_another_pulls(cluster: Cluster, rmqctl: Rmqctl) -> None:
    if cluster.version == "4.9.7":
        pytest.skip("4.9.7 has no pop")
    java = cluster.java
    cluster.create_topic(_GROUP)
    for address in cluster.addresses.values():
        java.mqadmin("setConsumeMode", "-b", address, "-t", _GROUP, "-g", _GROUP, "-m", "POP", "-q", "0")
    found: list[Found] = []

    def finds(*expected: str) -> bool:
        found.append(diagnose(rmqctl, _GROUP, "--settle", "0s"))
        # The revive queues are those of all groups of the cluster.
        return found[-1].codes[_GROUP] - {"POP001"} == codes(*expected)

    java.consume("pop0", _GROUP, _GROUP, pop=1, instance="modes-pop0")
    java.consume("pop1", _GROUP, _GROUP, pop=1, instance="modes-pop1")
    java.produce(_GROUP, 20)
    wait_until(lambda: _consumed(java, "pop0", "pop1") == 20, timeout_s=120)
    wait_until(finds, timeout_s=120, why=lambda: found[-1])

    java.stop("pop1")
    java.consume("push", _GROUP, _GROUP, instance="modes-push")
    before = _consumed(java, "pop0")

    def is_consumed_twice() -> bool:
        nonlocal sent
        java.produce(_GROUP, 20)
        sent += 20
        wait_until(lambda: _consumed(java, "pop0", "push") - before >= sent, timeout_s=60)
        return _consumed(java, "pop0", "push") - before > sent

    sent = 0
    wait_until(is_consumed_twice, timeout_s=120)
    wait_until(lambda: finds("ALO004"), timeout_s=120, why=lambda: found[-1])
    (item,) = (each for each in found[-1].items[_GROUP] if each["code"] == "ALO004")
    assert item["severity"] == "ERROR"
    ways = {(each["value"], each["reportedBy"].partition("@")[2]) for each in item["evidence"]}
    assert ways == {("pulled", "modes-push"), ("popped", "modes-pop0")}
    refused = rmqctl("offset", "reset", _GROUP, "--topic", _GROUP, "--to-earliest", "--yes")
    assert (refused.exit_code, "only one of them" in refused.stderr) == (1, True), refused.stderr


def _consumed(java: Workbench, *consumer_ids: str) -> int:
    return sum(int(java.call("consumed", id=each)) for each in consumer_ids)
