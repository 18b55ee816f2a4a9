"""Two brokers, of which one is drained, killed and started again; one group needs it alone, one needs both."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.conditions import wait_until
from tests.real.harness.queue_tables import wait_stored

from .parts import send_to_each, wait_shared

_BROKER = "broker-b"
_HOSTS = ("10.1.0.7", "10.1.0.8")
_AUDITOR = "10.1.0.9"


def set_up(stage: Stage) -> None:
    """Start a group for a topic at both brokers, one for a topic at one; have all consumed but what is in one group."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    cluster.create_topic("ledger", queue_count=1, brokers=(_BROKER,))
    java.consume("reports", "reports", "orders", ip="10.1.0.5", instance="reports")
    wait_shared(stage, "reports", "orders", 4, "reports", retry_count=0)
    java.produce("ledger", 5)
    send_to_each(stage, "orders", 10)
    java.wait_consumed("reports", 40)
    wait_stored(stage.cluster, "reports", "reports", "orders")
    java.stop("reports")
    java.produce("orders", 3, queue=f"{_BROKER}:1")
    for host in _HOSTS:
        java.consume(host, "billing", "orders", ip=host, instance="billing", routes=1000)
    java.consume(_AUDITOR, "audit", "ledger", ip=_AUDITOR, instance="audit", routes=1000)
    wait_shared(stage, "billing", "orders", 4, *_HOSTS, retry_count=0)
    wait_shared(stage, "audit", "ledger", 1, _AUDITOR, retry_count=0)
    java.wait_consumed(" ".join(_HOSTS), 43)
    java.wait_consumed(_AUDITOR, 5)
    wait_stored(stage.cluster, " ".join(_HOSTS), "billing", "orders")
    wait_stored(stage.cluster, _AUDITOR, "audit", "ledger")


def drain(stage: Stage) -> None:
    """Let the group that is behind read the rest."""
    java = stage.cluster.java
    java.consume("reports", "reports", "orders", ip="10.1.0.5", instance="reports", routes=1000)
    java.wait_consumed("reports", 3)
    wait_stored(stage.cluster, "reports", "reports", "orders")


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
    wait_shared(stage, "billing", "orders", 2, *_HOSTS, retry_count=0)


def start_again(stage: Stage) -> None:
    """Start the broker, and wait until members have its queues."""
    broker = stage.cluster.brokers[_BROKER]
    broker.start()
    broker.wait()
    stage.cluster.wait()
    stage.cluster.wait_for_route("orders", 2)
    wait_shared(stage, "billing", "orders", 4, *_HOSTS, retry_count=0)
    wait_shared(stage, "reports", "orders", 4, "reports", retry_count=0)
