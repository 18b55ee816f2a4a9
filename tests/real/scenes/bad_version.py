"""A bad version of `billing` ran for some time: it dropped orders, and made dead letters of others."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.conditions import wait_until

from .parts import letter_count, mark_time, send_to_each


def set_up(stage: Stage) -> None:
    """Run the good version, the bad one, and the one with the fix."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    cluster.create_topic("%RETRY%billing", queue_count=1)
    java.consume("good", "billing", "orders", ip="10.1.0.7")
    send_to_each(stage, "orders", 50, prefix="good-")
    java.wait_consumed("good", 200)
    java.stop("good")
    mark_time(stage)
    java.consume("bad", "billing", "orders", ip="10.1.0.7", fail="eur", max=0, threads=1)
    send_to_each(stage, "orders", 30, prefix="usd-")
    java.produce("orders", 5, queue="broker-a:0", prefix="eur-", tag="eur", keys="o-10")
    java.wait_consumed("bad", 120)
    wait_until(lambda: letter_count(stage, "billing") == 5)
    java.persist("bad")
    java.stop("bad")
    # It takes its time with messages that are redelivered.
    java.consume("fixed", "billing", "orders", ip="10.1.0.7", stuck="usd-0")
    wait_until(lambda: len(java.queues("fixed", "orders")) == 4)
    wait_until(lambda: len(java.queues("fixed", "%RETRY%billing")) == 2)
    send_to_each(stage, "orders", 10, prefix="after-")
    java.wait_consumed("fixed", 40)
    java.persist("fixed")


def replayed(stage: Stage) -> None:
    """Wait until the group has consumed the five dead letters."""
    java = stage.cluster.java
    java.wait_consumed("fixed", 45)
    java.persist("fixed")


def redelivered(stage: Stage) -> None:
    """Wait until the group has consumed all from the bad time on."""
    java = stage.cluster.java
    java.release("fixed")
    java.wait_consumed("fixed", 45 + 165)
    java.persist("fixed")
