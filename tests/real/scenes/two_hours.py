"""Messages of three hours ago and of now: the brokers ran by a clock that was behind at first."""

from __future__ import annotations

from typing import Any

from tests.real.docs_stage import Stage
from tests.real.harness.cluster import Broker
from tests.real.harness.faketime import by_a_clock

from .parts import send_to_each


class _ThreeHoursBehind(Broker):
    skew_s = -3 * 3600

    def start(self) -> None:
        self.start_within(by_a_clock(self.skew_s) if self.skew_s else ())


CLUSTER: dict[str, Any] = {"broker_count": 2, "broker_type": _ThreeHoursBehind}


def set_up(stage: Stage) -> None:
    """Send some, set the clocks right, send more; both groups read all of it, and one ends."""
    cluster = stage.cluster
    cluster.create_topic("orders", queue_count=2)
    send_to_each(stage, "orders", 60, prefix="old-")
    # A producer that lives on may take up a route while its brokers are away.
    cluster.close_java()
    for broker in cluster.brokers.values():
        assert isinstance(broker, _ThreeHoursBehind)
        broker.kill()
        broker.skew_s = 0
        broker.start()
    cluster.wait()
    cluster.wait_for_route("orders", 2)
    send_to_each(stage, "orders", 39, prefix="new-")
    java = cluster.java
    java.consume("reports", "reports", "orders")
    java.consume("billing", "billing", "orders", ip="10.1.0.7")
    java.wait_consumed("billing", 396)
    java.stop("billing")
    # The broker still holds its last pulls, and would answer them, not those of the next member, with the reset.
    send_to_each(stage, "orders", 1, prefix="last-")
    # This one takes its time with messages that are redelivered.
    java.consume("billing", "billing", "orders", stuck="new-0", ip="10.1.0.7")
    java.wait_consumed("billing", 4)
    java.persist("billing")
    java.wait_consumed("reports", 400)
    java.stop("reports")


def redelivered(stage: Stage) -> None:
    """Wait until the group has consumed the newer messages once more."""
    java = stage.cluster.java
    java.release("billing")
    java.wait_consumed("billing", 164)
    java.persist("billing")
