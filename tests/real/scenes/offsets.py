"""`reports` has read all and is switched off, `billing` has read all and runs; the topic has a before and an after."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.real.docs_stage import Stage


def set_up(stage: Stage) -> None:
    """Fill the queues before and after the scene's time, let both groups read them, switch one off."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    queues = [f"{name}:{queue_id}" for name in cluster.brokers for queue_id in range(2)]
    for queue in queues:
        java.produce("orders", 60, queue=queue)
    # No message has been stored in this millisecond or will be.
    time.sleep(0.01)
    now = datetime.now(UTC)
    stage.time = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z"
    time.sleep(0.01)
    for queue in queues:
        java.produce("orders", 40, queue=queue)
    for group in ("reports", "billing"):
        java.consume(group, group, "orders")
        java.wait_consumed(group, 400)
        java.persist(group)
    java.stop("reports")


def reports_runs(stage: Stage) -> None:
    """Switch `reports` on for ten new messages."""
    java = stage.cluster.java
    java.produce("orders", 10, queue="broker-a:0")
    java.consume("reports-again", "reports", "orders")
    java.wait_consumed("reports-again", 10)
    java.persist("reports-again")
    java.stop("reports-again")
