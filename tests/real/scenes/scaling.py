"""Three Java consumers share four queues and start at the end of new ones; then queues and members come."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.queue_tables import progress
from tests.real.harness.waiting import wait_until

_HOSTS = ("10.1.0.1", "10.1.0.2", "10.1.0.3")
_NEW_HOSTS = ("10.1.0.4", "10.1.0.5")


def set_up(stage: Stage) -> None:
    """Start three members, and have all that is there consumed."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    for host in _HOSTS:
        _start(stage, host)
    _settle(stage, 4, *_HOSTS)
    for name in cluster.brokers:
        for queue_id in range(2):
            java.produce("orders", 10, queue=f"{name}:{queue_id}")
    java.wait_consumed(" ".join(_HOSTS), 40)
    wait_until(lambda: _is_read(stage, *_HOSTS))


def add_queues_to_read(stage: Stage) -> None:
    """Add two queues at each broker that members read and producers do not use yet."""
    _resize(stage, "-r", "4", "-w", "2")
    _settle(stage, 8, *_HOSTS)


def open_queues(stage: Stage) -> None:
    """Let producers use the new queues, and send something to each."""
    cluster, java = stage.cluster, stage.cluster.java
    _resize(stage, "-r", "4", "-w", "4")
    for name in cluster.brokers:
        for queue_id in range(2, 4):
            java.produce("orders", 5, queue=f"{name}:{queue_id}")
    java.wait_consumed(" ".join(_HOSTS), 60)
    wait_until(lambda: _is_read(stage, *_HOSTS))


def add_members(stage: Stage) -> None:
    """Start two more members."""
    for host in _NEW_HOSTS:
        _start(stage, host)
    _settle(stage, 8, *_HOSTS, *_NEW_HOSTS)


def _start(stage: Stage, host: str) -> None:
    # It asks for routes each second, not each half minute.
    options = {"ip": host, "instance": "billing", "from": "last", "routes": 1000}
    stage.cluster.java.consume(host, "billing", "orders", **options)


def _resize(stage: Stage, *queues: str) -> None:
    said = stage.cluster.java.mqadmin(
        "updateTopic", "-n", stage.cluster.namesrv, "-c", "DefaultCluster", "-t", "orders", *queues
    )
    assert "success" in said, said


def _settle(stage: Stage, queue_count: int, *hosts: str) -> None:
    """Wait until the members share all queues evenly, none of them held twice."""
    java = stage.cluster.java

    def is_settled() -> bool:
        for host in hosts:
            java.call("rebalance", id=host)
        held = [java.queues(host, "orders") for host in hosts]
        retries = [java.queues(host, "%RETRY%billing") for host in hosts]
        sizes = sorted(map(len, held))
        return (
            sum(sizes) == len(set().union(*held)) == queue_count
            and sizes[-1] - sizes[0] <= 1
            and sum(map(len, retries)) == len(set().union(*retries)) == 2
        )

    wait_until(is_settled)


def _is_read(stage: Stage, *hosts: str) -> bool:
    """Tell whether the brokers have the offsets of all queues at their ends."""
    for host in hosts:
        stage.cluster.java.persist(host)
    return all(row.diff == 0 for row in progress(stage.cluster, "billing", "orders"))
