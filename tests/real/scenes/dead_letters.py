"""`billing` could not consume four of six payments, which became its dead letters; it is switched off until a fix."""

from __future__ import annotations

import base64
import json

from tests.real.docs_stage import Stage
from tests.real.harness.conditions import wait_until

from .parts import letter_count

CLUSTER = {"broker_count": 1}
_PAYMENTS = (("USD", 40), ("EUR", 25), ("USD", 310), ("USD", 95), ("EUR", 60), ("USD", 180))


def set_up(stage: Stage) -> None:
    """Send payments to a consumer that fails on those in dollars, and tries each twice."""
    cluster, java = stage.cluster, stage.cluster.java
    cluster.create_topic("payments", queue_count=1)
    # One thread and one queue: they become dead letters in the order of their numbers.
    java.consume("broken", "billing", "payments", fail='{"currency": "USD"', max=1, threads=1)
    for number, (currency, amount) in enumerate(_PAYMENTS):
        body = json.dumps({"currency": currency, "amount": amount})
        java.produce(
            "payments", 1, body64=base64.b64encode(body.encode()).decode(), key=f"pay-{number}",
            tag="card" if number % 3 else "bank",
        )  # fmt: skip
    wait_until(lambda: letter_count(stage, "billing") == 4)
    java.stop("broken")


def fix(stage: Stage) -> None:
    """Start a consumer that fails on nothing and wait until it holds the retry queue."""
    java = stage.cluster.java
    java.consume("fixed", "billing", "payments")
    wait_until(lambda: java.queues("fixed", "%RETRY%billing"))


def consumed(stage: Stage) -> None:
    """Wait until the consumer has finished what was replayed."""
    stage.cluster.java.wait_consumed("fixed", 4)
    stage.cluster.java.persist("fixed")
