"""The scene `stuck`; later one of its two brokers ends."""

from __future__ import annotations

from tests.real.docs_stage import Stage
from tests.real.harness.conditions import wait_until

from . import stuck


def set_up(stage: Stage) -> None:
    """Set up what `stuck` has."""
    stuck.set_up(stage)


def broker_b_ends(stage: Stage) -> None:
    """Kill broker-b, and wait until the name server no longer lists it."""
    broker = stage.cluster.brokers["broker-b"]
    broker.kill()
    wait_until(lambda: broker.address not in stage.cluster.java.mqadmin("clusterList"))
