"""`dlq replay` that is killed over and over, and a naive one beside it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

from .cluster import Cluster
from .queue_tables import topic_status
from .rmqctl import Result, Rmqctl


def stored_count(cluster: Cluster, topic: str) -> int:
    """Return how many messages a topic has been given."""
    return sum(end for _, _, _, end in topic_status(cluster, topic))


def replay_through_kills(
    cluster: Cluster, rmqctl: Rmqctl, words: tuple[str, ...], topic: str, kills: int, chance: random.Random, *,
    is_naive: bool = False,
) -> tuple[Result, int]:  # fmt: skip
    """Run a replay, kill it at a random moment after it began to send, so often; then let it come to its end.

    Naive: each run has a ledger of its own. Returns the last run, and how many were killed while they were sending.
    """
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    env |= {"NAMESRV_ADDR": cluster.namesrv, "RMQCTL_CACHE": os.devnull}
    killed_count = 0
    for number in range(kills):
        more = ("--ledger", f"naive{number}") if is_naive else ()
        before = stored_count(cluster, topic)
        running = subprocess.Popen(
            [sys.executable, "-m", "rmqctl", *words, *more], env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while running.poll() is None and stored_count(cluster, topic) == before:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.3))
        killed_count += running.poll() is None
        running.kill()
        running.wait(timeout=30)
    return rmqctl(*words, *(("--ledger", "last") if is_naive else ())), killed_count
