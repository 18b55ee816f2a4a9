"""`dlq replay` that is killed over and over, and a naive one beside it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from rmqctl.changes.dlq.ledger_summaries import read_ledgers

from .cluster import Cluster
from .queue_tables import topic_status
from .rmqctl import Result, Rmqctl


def stored_count(cluster: Cluster, topic: str) -> int:
    """Return how many messages a topic has been given."""
    return sum(end for _, _, _, end in topic_status(cluster, topic))


def start_replay(cluster: Cluster, words: Sequence[str], stdout: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Start a replay and do not wait for it."""
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    env |= {"NAMESRV_ADDR": cluster.namesrv, "RMQCTL_CACHE": os.devnull}
    return subprocess.Popen(
        [sys.executable, "-m", "rmqctl", *words], env=env, stdin=subprocess.DEVNULL, stdout=stdout,
        stderr=subprocess.DEVNULL if stdout == subprocess.DEVNULL else subprocess.PIPE, text=True,
    )  # fmt: skip


def ledger_of(rmqctl: Rmqctl, group: str) -> dict[str, Any]:
    """Return the only ledger of a group, as `dlq status` shows it."""
    (ledger,) = rmqctl("dlq", "status", group, "-o", "json").document["items"]
    return ledger


def kill_replay(cluster: Cluster, words: Sequence[str], topic: str, chance: random.Random) -> bool:
    """Run a replay and kill it at a random moment after it began to send. Tells whether it was still running.

    What a run that was killed before had sent can be stored only now: so its ledger, too, must have this run.
    """
    before = stored_count(cluster, topic)
    running = start_replay(cluster, words)
    while running.poll() is None and (stored_count(cluster, topic) == before or not _has_begun(running.pid)):
        time.sleep(0.02)
    time.sleep(chance.uniform(0, 0.3))
    was_running = running.poll() is None
    running.kill()
    running.wait(timeout=30)
    return was_running


def _has_begun(pid: int) -> bool:
    return any(run.pid == pid for ledger in read_ledgers() for run in ledger.runs)


def replay_through_kills(
    cluster: Cluster, rmqctl: Rmqctl, words: tuple[str, ...], topic: str, kills: int, chance: random.Random, *,
    is_naive: bool = False,
) -> tuple[Result, int]:  # fmt: skip
    """Run a replay, kill it at a random moment after it began to send, so often; then let it come to its end.

    Naive: each run has a ledger of its own. Returns the last run, and how many were killed while they were sending.
    """
    killed_count = 0
    for number in range(kills):
        more = ("--ledger", f"naive{number}") if is_naive else ()
        killed_count += kill_replay(cluster, (*words, *more), topic, chance)
    return rmqctl(*words, *(("--ledger", "last") if is_naive else ())), killed_count
