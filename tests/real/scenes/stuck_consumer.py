"""A message of `billing` never finishes; its copy does."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.conditions import wait_until

from .parts import send_to_each, wait_found


def set_up(stage: Stage) -> None:
    """Fill the queues, let the group read all but one message, and wait until that one counts as stuck."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    cluster.create_topic("%RETRY%billing", queue_count=1)
    java.consume("billing", "billing", "orders", stuck="a0-10", once=1, ip="10.1.0.7")
    wait_until(lambda: [len(java.queues("billing", topic)) for topic in ("orders", "%RETRY%billing")] == [4, 2])
    send_to_each(stage, "orders", 100, prefix="{queue}-", keys="o-")
    java.wait_consumed("billing", 399)
    java.persist("billing")
    wait_found(stage, "PRG001", "billing")


def redelivered(stage: Stage) -> None:
    """Wait until the copy is consumed."""
    java = stage.cluster.java
    java.wait_consumed("billing", 400)
    java.persist("billing")
