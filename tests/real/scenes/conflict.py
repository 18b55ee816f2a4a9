"""Two Java consumers of one group subscribe to one topic with different tags; then both are deployed with both tags."""

from __future__ import annotations

import json

from tests.real.docs_stage import Stage
from tests.real.harness.queue_tables import wait_stored

from .parts import send_to_each, wait_shared

_OLD, _NEW = "10.1.0.7", "10.1.0.8"


def set_up(stage: Stage) -> None:
    """Start a member that wants `created` and consumes some, a newer one that wants `paid`; then send both tags."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    _start(stage, _OLD, "created")
    wait_shared(stage, "billing", "orders", 4, _OLD)
    send_to_each(stage, "orders", 5, tag="created")
    java.wait_consumed(_OLD, 20)
    _start(stage, _NEW, "paid")
    wait_shared(stage, "billing", "orders", 4, _OLD, _NEW)
    stage.time = _subscribed_at(stage, "paid")
    for tag in ("created", "paid"):
        send_to_each(stage, "orders", 5, tag=tag)
    # The broker gives to both only what the newer one wants; the older one leaves out the rest.
    java.wait_consumed(_NEW, 10)
    wait_stored(cluster, f"{_OLD} {_NEW}", "billing", "orders")


def deploy(stage: Stage) -> None:
    """Start both again with one subscription, while a message comes to each queue.

    It ends the pulls of the stopped members that brokers hold for 15 s: those would be told of a reset in vain.
    """
    java = stage.cluster.java
    for host in (_OLD, _NEW):
        java.stop(host)
    send_to_each(stage, "orders", 1, tag="paid")
    for host in (_OLD, _NEW):
        # Slow enough that a reset is seen before all is consumed again: rmqctl says how to go back only then.
        _start(stage, host, "created || paid", threads=1, each=500)
    wait_shared(stage, "billing", "orders", 4, _OLD, _NEW)
    java.wait_consumed(f"{_OLD} {_NEW}", 4)
    wait_stored(stage.cluster, f"{_OLD} {_NEW}", "billing", "orders")


def consume(stage: Stage) -> None:
    """Wait until all is consumed again."""
    stage.cluster.java.wait_consumed(f"{_OLD} {_NEW}", 48)
    wait_stored(stage.cluster, f"{_OLD} {_NEW}", "billing", "orders")


def _start(stage: Stage, host: str, expression: str, **options: object) -> None:
    stage.cluster.java.consume(host, "billing", "orders", ip=host, instance="billing", expr=expression, **options)


def _subscribed_at(stage: Stage, expression: str) -> str:
    """Return when the member with this filter subscribed, as the page's table shows it."""
    document = json.loads(stage.run("rmqctl group subscriptions billing -o json")[1])
    times = [item["subVersionIso"] for item in document["items"] if item["subString"] == expression]
    return str(times[0])
