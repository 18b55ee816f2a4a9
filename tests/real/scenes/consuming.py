"""A topic of one queue with ten messages, and the handler that the page prints."""

from __future__ import annotations

import re

from tests.docs import DOCS
from tests.real.docs_stage import Stage

CLUSTER = {"broker_count": 1}


def set_up(stage: Stage) -> None:
    """Store the messages; write the page's handler where the examples run."""
    cluster = stage.cluster
    cluster.create_topic("orders", queue_count=1)
    cluster.java.produce("orders", 10, queue="broker-a:0", prefix="order-")
    (handler,) = re.findall(r"```python\n(def bill\(.*?)```", (DOCS / "consuming.md").read_text(), re.DOTALL)
    (stage.home / "billing.py").write_text(handler)
