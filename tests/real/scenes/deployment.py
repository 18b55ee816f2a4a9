"""Three Java consumers share the six queues of one topic; one of them is stopped, and started again."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.queue_tables import wait_stored

from .parts import wait_shared

_HOSTS = ("10.1.0.7", "10.1.0.8", "10.1.0.9")


def set_up(stage: Stage) -> None:
    """Start the members one after the other, and have all that is there consumed."""
    stage.cluster.create_topic("orders", queue_count=3)
    for host in _HOSTS:
        _start(stage, host)
    wait_shared(stage, "billing", "orders", 6, *_HOSTS)
    stage.cluster.java.produce("orders", 60)
    stage.cluster.java.wait_consumed(" ".join(_HOSTS), 60)
    wait_stored(stage.cluster, " ".join(_HOSTS), "billing", "orders")


def stop_one(stage: Stage) -> None:
    """Shut the first member down; the other two take its queues."""
    stage.cluster.java.stop(_HOSTS[0])
    wait_shared(stage, "billing", "orders", 6, *_HOSTS[1:])


def start_one(stage: Stage) -> None:
    """Start it again; each has its share, and what was sent meanwhile is consumed."""
    _start(stage, _HOSTS[0])
    wait_shared(stage, "billing", "orders", 6, *_HOSTS)


def _start(stage: Stage, host: str) -> None:
    stage.cluster.java.consume(host, "billing", "orders", ip=host, instance="billing")
