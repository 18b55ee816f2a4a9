"""A bad version of `billing` ran for some time: it dropped orders, and made dead letters of others."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.real.docs_stage import Stage
from tests.real.harness.waiting import wait_until


def set_up(stage: Stage) -> None:
    """Run the good version, the bad one, and the one with the fix."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    cluster.create_topic("%RETRY%billing", queue_count=1)
    java.consume("good", "billing", "orders", ip="10.1.0.7")
    _send(stage, 50, "good-")
    java.wait_consumed("good", 200)
    java.stop("good")
    time.sleep(0.01)
    stage.time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    time.sleep(0.01)
    java.consume("bad", "billing", "orders", ip="10.1.0.7", fail="eur", max=0, threads=1)
    _send(stage, 30, "usd-")
    java.produce("orders", 5, queue="broker-a:0", prefix="eur-", tag="eur", keys="o-10")
    java.wait_consumed("bad", 120)
    wait_until(lambda: _dead_letters(stage) == 5)
    java.persist("bad")
    java.stop("bad")
    # It takes its time with messages that are redelivered.
    java.consume("fixed", "billing", "orders", ip="10.1.0.7", stuck="usd-0")
    wait_until(lambda: len(java.queues("fixed", "orders")) == 4)
    wait_until(lambda: len(java.queues("fixed", "%RETRY%billing")) == 2)
    _send(stage, 10, "after-")
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


def _dead_letters(stage: Stage) -> int:
    _, text = stage.run("rmqctl dlq list billing --columns count -o csv")
    return int(text.splitlines()[1]) if text.splitlines()[1:] else 0


def _send(stage: Stage, count: int, prefix: str) -> None:
    for name in stage.cluster.brokers:
        for queue_id in range(2):
            stage.cluster.java.produce("orders", count, queue=f"{name}:{queue_id}", prefix=prefix)
