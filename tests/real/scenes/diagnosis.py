"""`billing` has been stuck for a minute, one broker refuses the pulls of `mailing`, `reports` is switched off."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.conditions import wait_until

from . import stuck
from .parts import wait_found


def set_up(stage: Stage) -> None:
    """Fill the queues, start the members, and wait until the message in hand counts as stuck."""
    stage.cluster.create_topic("invoices", queue_count=2)
    stuck.set_up(stage, instance="billing-1")
    java = stage.cluster.java
    java.consume("mailing", "mailing", "invoices", ip="10.1.0.8", instance="mailing-1")

    def held(topic: str, member: str) -> int:
        return len(java.queues(member, topic))

    wait_until(lambda: held("invoices", "mailing") == 4, 120)
    for group in ("billing", "mailing"):
        wait_until(lambda group=group: held(f"%RETRY%{group}", group) == 2, 120)
    done, said = stage.run("rmqctl group update mailing --no-consume --broker broker-b --yes")
    assert "confirmed" in said, (done, said)
    wait_found(stage, "PRG001", "billing")
