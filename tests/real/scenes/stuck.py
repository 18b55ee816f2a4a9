"""Two groups read one topic: `billing` has a message that never finishes, `reports` is switched off."""

from __future__ import annotations

from tests.real.docs_stage import Stage

from .parts import send_to_each


def set_up(stage: Stage, **options: str) -> None:
    """Fill the queues, let both groups read them, send three more; `options` are those of the member that hangs."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    send_to_each(stage, "orders", 100, prefix="{queue}-")
    java.consume("reports", "reports", "orders")
    java.wait_consumed("reports", 400)
    java.stop("reports")
    java.consume("billing", "billing", "orders", stuck="a0-10", ip="10.1.0.7", **options)
    java.wait_consumed("billing", 399)
    java.produce("orders", 3, queue="broker-b:1", prefix="late-")
    java.wait_consumed("billing", 402)
    java.persist("billing")
