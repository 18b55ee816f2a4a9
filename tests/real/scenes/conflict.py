"""Two Java consumers of one group subscribe to one topic with different tags; then both are deployed with both tags."""

from __future__ import annotations

import json

from tests.real.docs_stage import Stage
from tests.real.harness.queue_tables import progress
from tests.real.harness.waiting import wait_until

_OLD, _NEW = "10.1.0.7", "10.1.0.8"


def set_up(stage: Stage) -> None:
    """Start a member that wants `created` and consumes some, a newer one that wants `paid`; then send both tags."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("orders", queue_count=2)
    _start(stage, _OLD, "created")
    _settle(stage, _OLD)
    queues = [f"{name}:{queue_id}" for name in cluster.brokers for queue_id in range(2)]
    for queue in queues:
        java.produce("orders", 5, queue=queue, tag="created")
    java.wait_consumed(_OLD, 20)
    _start(stage, _NEW, "paid")
    _settle(stage, _OLD, _NEW)
    stage.time = _subscribed_at(stage, "paid")
    for queue in queues:
        for tag in ("created", "paid"):
            java.produce("orders", 5, queue=queue, tag=tag)
    # The broker gives to both only what the newer one wants; the older one leaves out the rest.
    java.wait_consumed(_NEW, 10)
    wait_until(lambda: _is_read(stage, _OLD, _NEW))


def deploy(stage: Stage) -> None:
    """Start both again with one subscription, while a message comes to each queue.

    It ends the pulls of the stopped members that brokers hold for 15 s: those would be told of a reset in vain.
    """
    java = stage.cluster.java
    for host in (_OLD, _NEW):
        java.stop(host)
    for name in stage.cluster.brokers:
        for queue_id in range(2):
            java.produce("orders", 1, queue=f"{name}:{queue_id}", tag="paid")
    for host in (_OLD, _NEW):
        # Slow enough that a reset is seen before all is consumed again: rmqctl says how to go back only then.
        _start(stage, host, "created || paid", threads=1, each=500)
    _settle(stage, _OLD, _NEW)
    java.wait_consumed(f"{_OLD} {_NEW}", 4)
    wait_until(lambda: _is_read(stage, _OLD, _NEW))


def consume(stage: Stage) -> None:
    """Wait until all is consumed again."""
    stage.cluster.java.wait_consumed(f"{_OLD} {_NEW}", 48)
    wait_until(lambda: _is_read(stage, _OLD, _NEW))


def _start(stage: Stage, host: str, expression: str, **options: object) -> None:
    stage.cluster.java.consume(host, "billing", "orders", ip=host, instance="billing", expr=expression, **options)


def _settle(stage: Stage, *hosts: str) -> None:
    """Wait until the members have equal shares, without a queue left or held twice."""
    java = stage.cluster.java

    def is_settled() -> bool:
        for host in hosts:
            java.call("rebalance", id=host)
        held = [java.queues(host, "orders") for host in hosts]
        retries = [java.queues(host, "%RETRY%billing") for host in hosts]
        return (
            all(len(share) == 4 // len(hosts) for share in held)
            and len(set().union(*held)) == 4
            and sum(map(len, retries)) == len(set().union(*retries)) == 2
        )

    wait_until(is_settled)


def _subscribed_at(stage: Stage, expression: str) -> str:
    """Return when the member with this filter subscribed, as the page's table shows it."""
    document = json.loads(stage.run("rmqctl group subscriptions billing -o json")[1])
    times = [item["subVersionIso"] for item in document["items"] if item["subString"] == expression]
    return str(times[0])


def _is_read(stage: Stage, *hosts: str) -> bool:
    """Tell whether the brokers have the offsets of all queues at their ends."""
    for host in hosts:
        stage.cluster.java.persist(host)
    return all(row.diff == 0 for row in progress(stage.cluster, "billing", "orders"))
