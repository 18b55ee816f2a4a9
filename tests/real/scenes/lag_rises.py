"""Groups fall behind: no member (`reports`), one is paused (`billing`), a message is stuck (`mailing`), slow ones."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.conditions import wait_until

from .parts import send_to_each, wait_found


def set_up(stage: Stage) -> None:
    """Let all groups catch up, then stop what consumes, and send more; wait until a message counts as stuck."""
    cluster, java = stage.cluster, stage.cluster.java
    for topic in ("orders", "mails", "parcels"):
        cluster.create_topic(topic, queue_count=2)
    for group in ("billing", "mailing", "shipping"):
        cluster.create_topic(f"%RETRY%{group}", queue_count=1)
    java.consume("mailing", "mailing", "mails", stuck="a0-7", ip="10.1.0.9")
    send_to_each(stage, "mails", 40, prefix="{queue}-")
    java.wait_consumed("mailing", 159)
    send_to_each(stage, "orders", 50, prefix="{queue}-")
    java.consume("reports", "reports", "orders")
    java.wait_consumed("reports", 200)
    java.stop("reports")
    _pause_one_of_two(stage)
    send_to_each(stage, "orders", 30, prefix="{queue}-")
    java.wait_consumed("billing-1 billing-2", 200 + 2 + 60)
    for name in ("billing-1", "billing-2", "mailing"):
        java.persist(name)
    wait_found(stage, "PRG001", "mailing")


def _pause_one_of_two(stage: Stage) -> None:
    java = stage.cluster.java
    names = [f"billing-{number}" for number in (1, 2)]
    for number, name in enumerate(names):
        java.consume(name, "billing", "orders", ip=f"10.1.0.{7 + number}", instance="billing")
    wait_until(lambda: [len(java.queues(name, "orders")) for name in names] == [2, 2])
    wait_until(lambda: [len(java.queues(name, "%RETRY%billing")) for name in names] == [1, 1])
    java.wait_consumed("billing-1 billing-2", 200)
    java.suspend("billing-2")
    # A pull that waits at the broker is still answered, with these.
    for queue in java.queues("billing-2", "orders"):
        java.produce("orders", 1, queue=queue)
    java.wait_consumed("billing-1 billing-2", 202)


def slow_listener(stage: Stage) -> None:
    """Start a member whose two threads need a fifth of a second for a message, and wait until its counts show it."""
    java = stage.cluster.java
    java.consume("shipping", "shipping", "parcels", ip="10.1.0.5", instance="shipping", threads=2, each=200)
    wait_until(lambda: len(java.queues("shipping", "parcels")) == 4)
    send_to_each(stage, "parcels", 300, prefix="{queue}-")
    wait_found(stage, "PRG006", "shipping")


def resume(stage: Stage) -> None:
    """Let the paused member pull again."""
    java = stage.cluster.java
    java.resume("billing-2")
    java.wait_consumed("billing-1 billing-2", 200 + 2 + 120)
    java.persist("billing-2")
