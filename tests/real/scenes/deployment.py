"""Three Java consumers share the six queues of one topic; one of them is stopped, and started again."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.queue_tables import progress
from tests.real.harness.waiting import wait_until

_HOSTS = ("10.1.0.7", "10.1.0.8", "10.1.0.9")


def set_up(stage: Stage) -> None:
    """Start the members one after the other, and have all that is there consumed."""
    stage.cluster.create_topic("orders", queue_count=3)
    for host in _HOSTS:
        _start(stage, host)
    _settle(stage, *_HOSTS)
    stage.cluster.java.produce("orders", 60)
    stage.cluster.java.wait_consumed(" ".join(_HOSTS), 60)
    wait_until(lambda: _is_read(stage))


def stop_one(stage: Stage) -> None:
    """Shut the first member down; the other two take its queues."""
    stage.cluster.java.stop(_HOSTS[0])
    _settle(stage, *_HOSTS[1:])


def start_one(stage: Stage) -> None:
    """Start it again; each has its share, and what was sent meanwhile is consumed."""
    _start(stage, _HOSTS[0])
    _settle(stage, *_HOSTS)


def _start(stage: Stage, host: str) -> None:
    stage.cluster.java.consume(host, "billing", "orders", ip=host, instance="billing")


def _settle(stage: Stage, *hosts: str) -> None:
    """Wait until the members have equal shares, without a queue left or held twice."""
    java = stage.cluster.java

    def is_settled() -> bool:
        for host in hosts:
            java.call("rebalance", id=host)
        held = [java.queues(host, "orders") for host in hosts]
        retries = [java.queues(host, "%RETRY%billing") for host in hosts]
        return (
            all(len(share) == 6 // len(hosts) for share in held)
            and len(set().union(*held)) == 6
            and sum(map(len, retries)) == len(set().union(*retries)) == 2
        )

    wait_until(is_settled)


def _is_read(stage: Stage) -> bool:
    """Tell whether the brokers have the offsets of all queues at their ends."""
    for host in _HOSTS:
        stage.cluster.java.persist(host)
    return all(row.diff == 0 for row in progress(stage.cluster, "billing", "orders"))
