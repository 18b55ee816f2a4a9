"""`billing` has a message whose listener does not return; when it is redelivered, the listener finishes it."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.queue_tables import progress, wait_until

from .parts import send_to_each


def set_up(stage: Stage) -> None:
    """Let the group read all queues; the listener hangs on the eleventh message of one."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    java.consume("billing", "billing", "orders", stuck="a0-10", once=1, ip="10.1.0.7")
    wait_until(lambda: len(java.queues("billing", "orders")) == 4, "the queues")
    send_to_each(stage, "orders", 100, prefix="{queue}-", keys="order-{queue}-")
    java.wait_consumed("billing", 399)
    java.persist("billing")


def retried(stage: Stage) -> None:
    """Wait until the message has been redelivered and its retry committed."""
    stage.cluster.java.wait_consumed("billing", 400)
    stage.cluster.java.persist("billing")
    wait_until(
        lambda: progress(stage.cluster, "billing", "%RETRY%billing")[0].consumer_offset == 1, "the offset of the retry"
    )
