"""Two brokers, of which one is drained, killed and started again; one group needs it alone, one needs both."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.queue_tables import progress
from tests.real.harness.waiting import wait_until

_BROKER = "broker-b"
_HOSTS = ("10.1.0.7", "10.1.0.8")
_AUDITOR = "10.1.0.9"


def set_up(stage: Stage) -> None:
    """Start a group for a topic at both brokers, one for a topic at one; have all consumed but what is in one group."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    cluster.create_topic("ledger", queue_count=1, brokers=(_BROKER,))
    java.consume("reports", "reports", "orders", ip="10.1.0.5", instance="reports")
    _settle(stage, "reports", "orders", 4, "reports")
    java.produce("ledger", 5)
    for name in cluster.brokers:
        for queue_id in range(2):
            java.produce("orders", 10, queue=f"{name}:{queue_id}")
    java.wait_consumed("reports", 40)
    wait_until(lambda: _is_read(stage, "reports", "orders", "reports"))
    java.stop("reports")
    java.produce("orders", 3, queue=f"{_BROKER}:1")
    for host in _HOSTS:
        java.consume(host, "billing", "orders", ip=host, instance="billing", routes=1000)
    java.consume(_AUDITOR, "audit", "ledger", ip=_AUDITOR, instance="audit", routes=1000)
    _settle(stage, "billing", "orders", 4, *_HOSTS)
    _settle(stage, "audit", "ledger", 1, _AUDITOR)
    java.wait_consumed(" ".join(_HOSTS), 43)
    java.wait_consumed(_AUDITOR, 5)
    wait_until(lambda: _is_read(stage, "billing", "orders", *_HOSTS))
    wait_until(lambda: _is_read(stage, "audit", "ledger", _AUDITOR))


def wipe(stage: Stage) -> None:
    """Take write permission, so that no producer uses the broker."""
    _let_write(stage, "wipeWritePerm")


def drain(stage: Stage) -> None:
    """Let the group that is behind read the rest."""
    java = stage.cluster.java
    java.consume("reports", "reports", "orders", ip="10.1.0.5", instance="reports", routes=1000)
    java.wait_consumed("reports", 3)
    wait_until(lambda: _is_read(stage, "reports", "orders", "reports"))


def kill(stage: Stage) -> None:
    """Kill the broker, and wait until its clients know."""
    stage.cluster.brokers[_BROKER].kill()
    java = stage.cluster.java

    def is_left() -> bool:
        hosts = (*_HOSTS, "reports")
        for host in hosts:
            java.call("rebalance", id=host)
        return not any(queue.startswith(_BROKER) for host in hosts for queue in java.queues(host, "orders"))

    wait_until(is_left)


def start_again(stage: Stage) -> None:
    """Start the broker, allow producers to use it, and wait until members have its queues."""
    broker = stage.cluster.brokers[_BROKER]
    broker.start()
    broker.wait()
    stage.cluster.wait()
    _let_write(stage, "addWritePerm")
    stage.cluster.wait_for_route("orders", 2)
    _settle(stage, "billing", "orders", 4, *_HOSTS)
    _settle(stage, "reports", "orders", 4, "reports")


def _let_write(stage: Stage, command: str) -> None:
    said = stage.cluster.java.mqadmin(command, "-n", stage.cluster.namesrv, "-b", _BROKER)
    assert "OK" in said, said


def _settle(stage: Stage, group: str, topic: str, queue_count: int, *hosts: str) -> None:
    """Wait until the members share all queues evenly, none of them held twice."""
    java = stage.cluster.java

    def is_settled() -> bool:
        for host in hosts:
            java.call("rebalance", id=host)
        held = [java.queues(host, topic) for host in hosts]
        sizes = sorted(map(len, held))
        return sum(sizes) == len(set().union(*held)) == queue_count and sizes[-1] - sizes[0] <= 1

    wait_until(is_settled)


def _is_read(stage: Stage, group: str, topic: str, *hosts: str) -> bool:
    """Tell whether the brokers have the offsets of all queues at their ends."""
    for host in hosts:
        stage.cluster.java.persist(host)
    return all(row.diff == 0 for row in progress(stage.cluster, group, topic))
