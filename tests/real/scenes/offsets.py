"""`reports` has read all and is switched off, `billing` has read all and runs; the topic has a before and an after."""

from __future__ import annotations

from tests.real.docs_stage import Stage

from .parts import mark_time, send_to_each, wait_shared


def set_up(stage: Stage) -> None:
    """Fill the queues before and after the scene's time, let both groups read them, switch one off."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    send_to_each(stage, "orders", 60)
    mark_time(stage)
    send_to_each(stage, "orders", 40)
    java.consume("reports", "reports", "orders")
    java.wait_consumed("reports", 400)
    java.persist("reports")
    java.stop("reports")
    # It begins at the end, and so slowly that a reset is seen before all is consumed again.
    for command in ("group create billing", "offset skip billing --topic orders"):
        said = stage.run(f"rmqctl {command} --yes")[1]
        assert "confirmed" in said, said
    java.consume("billing", "billing", "orders", threads=1, each=500)
    wait_shared(stage, "billing", "orders", 4, "billing")


def reports_runs(stage: Stage) -> None:
    """Switch `reports` on for ten new messages."""
    java = stage.cluster.java
    java.produce("orders", 10, queue="broker-a:0")
    java.consume("reports-again", "reports", "orders")
    java.wait_consumed("reports-again", 10)
    java.persist("reports-again")
    java.stop("reports-again")
