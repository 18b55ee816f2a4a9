"""A large group with a client that flaps for an hour, simulated by the whole command; needs no cluster."""

from __future__ import annotations

import json
import subprocess
import time

from tests.bench.measure import rmqctl

_SIZE = ("--brokers", "10", "--queues", "200", "--consumers", "500", "--rate", "10000")
_GOAL_S = 20


def measure() -> list[tuple[str, str, str, bool]]:
    """Return the seconds of one run without protection, and of one with and one without."""
    rows = []
    for protect, what in (("0", "without protection"), ("60s", "without and with protection")):
        words = ("whatif", "churn", *_SIZE, "--flap", "10s", "--for", "1h", "--runs", "1", "--protect", protect)
        started = time.perf_counter()
        done = subprocess.run(rmqctl(*words, "-o", "json"), stdout=subprocess.PIPE, check=True)
        wall_s = time.perf_counter() - started
        items = json.loads(done.stdout)["items"]
        assert 340 < items[0]["changeCount"] < 380
        goal_s = _GOAL_S * len(items)
        size = "whatif churn, 500 clients, 2,000 queues, 1 h, a flap every 10 s"
        rows.append((f"{size}, {what}", f"{wall_s:.1f} s", f"< {goal_s} s", wall_s < goal_s))
    return rows
