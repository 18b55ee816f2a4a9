"""Three Java consumers share four queues and start at the end of new ones; then queues and members come."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.queue_tables import wait_stored

from .parts import send_to_each, wait_shared

_HOSTS = ("10.1.0.1", "10.1.0.2", "10.1.0.3")
_NEW_HOSTS = ("10.1.0.4", "10.1.0.5")


def set_up(stage: Stage) -> None:
    """Start three members, and have all that is there consumed."""
    stage.cluster.create_topic("orders", queue_count=2)
    for host in _HOSTS:
        _start(stage, host)
    wait_shared(stage, "billing", "orders", 4, *_HOSTS)
    send_to_each(stage, "orders", 10)
    stage.cluster.java.wait_consumed(" ".join(_HOSTS), 40)
    wait_stored(stage.cluster, " ".join(_HOSTS), "billing", "orders")


def add_queues_to_read(stage: Stage) -> None:
    """Add two queues at each broker that members read and producers do not use yet."""
    _resize(stage, "-r", "4", "-w", "2")
    wait_shared(stage, "billing", "orders", 8, *_HOSTS)


def open_queues(stage: Stage) -> None:
    """Let producers use the new queues, and send something to each."""
    _resize(stage, "-r", "4", "-w", "4")
    send_to_each(stage, "orders", 5, range(2, 4))
    stage.cluster.java.wait_consumed(" ".join(_HOSTS), 60)
    wait_stored(stage.cluster, " ".join(_HOSTS), "billing", "orders")


def add_members(stage: Stage) -> None:
    """Start two more members."""
    for host in _NEW_HOSTS:
        _start(stage, host)
    wait_shared(stage, "billing", "orders", 8, *_HOSTS, *_NEW_HOSTS)


def _start(stage: Stage, host: str) -> None:
    # It asks for routes each second, not each half minute.
    options = {"ip": host, "instance": "billing", "from": "last", "routes": 1000}
    stage.cluster.java.consume(host, "billing", "orders", **options)


def _resize(stage: Stage, *queues: str) -> None:
    said = stage.cluster.java.mqadmin(
        "updateTopic", "-n", stage.cluster.namesrv, "-c", "DefaultCluster", "-t", "orders", *queues
    )
    assert "success" in said, said
