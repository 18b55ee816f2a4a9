"""`billing` has been stuck for a minute, one broker refuses the pulls of `mailing`, `reports` is switched off."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.waiting import wait_until


def set_up(stage: Stage) -> None:
    """Fill the queues, start the members, and wait until the message in hand counts as stuck."""
    cluster, java = stage.cluster, stage.cluster.java
    for topic in ("orders", "invoices"):
        cluster.create_topic(topic, queue_count=2)
    for name in cluster.brokers:
        for queue_id in range(2):
            java.produce("orders", 100, queue=f"{name}:{queue_id}", prefix=f"{name[-1]}{queue_id}-")
    java.consume("reports", "reports", "orders")
    java.wait_consumed("reports", 400)
    java.stop("reports")
    java.consume("billing", "billing", "orders", stuck="a0-10", ip="10.1.0.7", instance="billing-1")
    java.consume("mailing", "mailing", "invoices", ip="10.1.0.8", instance="mailing-1")
    java.wait_consumed("billing", 399)
    java.produce("orders", 3, queue="broker-b:1", prefix="late-")
    java.wait_consumed("billing", 402)
    java.persist("billing")

    def held(topic: str, member: str) -> int:
        return len(java.queues(member, topic))

    wait_until(lambda: held("invoices", "mailing") == 4, 120)
    for group in ("billing", "mailing"):
        wait_until(lambda group=group: held(f"%RETRY%{group}", group) == 2, 120)
    done, said = stage.run("rmqctl group update mailing --no-consume --broker broker-b --yes")
    assert "confirmed" in said, (done, said)
    wait_until(lambda: "PRG001" in stage.run("rmqctl diagnose billing --only PRG001 -o name")[1], 150)
