"""`clean-expired --yes` that is killed between sending back and acknowledging, and a second run that finishes it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from typing import NamedTuple

from .cluster import Cluster
from .queue_tables import progress, wait_until
from .rmqctl import Rmqctl

_BROKER = "broker-a"
# Long enough for a run that is not killed in time to have ended.
_LONGEST_S = 0.4


class Killed(NamedTuple):
    """One attempt: when the run was killed, how the next one ended, and how often the message came again."""

    after_s: float
    was_running: bool
    next_exit_code: int
    retry_count: int
    offset: int

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, and at worst one copy too many was made."""
        return self.offset == 3 and 1 <= self.retry_count <= 2


def kill_cleaning(cluster: Cluster, rmqctl: Rmqctl, name: str, chance: random.Random) -> Killed:
    """Let a message hang, kill a run that cleans it at a random moment after it began to send, and clean again."""
    java, topic, group = cluster.java, f"Killed{name}", f"Killed{name}Group"
    cluster.create_topic(topic, queue_count=1, brokers=(_BROKER,))
    java.consume(name, group, topic, stuck="X", collect=1)
    java.produce(topic, 1, prefix="a")
    java.produce(topic, 1, prefix="X")
    java.produce(topic, 1, prefix="b")
    java.wait_consumed(name, 2)
    wait_until(lambda: progress(cluster, group, topic)[0].consumer_offset == 1, "the offset")
    words = ("clean-expired", group, "--for", "1500ms", "--older-than", "1s", "--delay-level", "1", "--yes")
    after_s = chance.uniform(0, _LONGEST_S)
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    env |= {"NAMESRV_ADDR": cluster.namesrv, "RMQCTL_CACHE": os.devnull}
    running = subprocess.Popen(
        [sys.executable, "-m", "rmqctl", *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stderr is not None
    said = ""
    while "Sending" not in said:
        line = running.stderr.readline()
        assert line, said
        said += line
    time.sleep(after_s)
    was_running = running.poll() is None
    running.kill()
    running.wait(timeout=30)
    running.stderr.close()
    again = rmqctl(*words, limit_s=180)
    java.release(name)
    wait_until(lambda: _retries(cluster, name) >= 1, "the retry")
    wait_until(lambda: progress(cluster, group, topic)[0].consumer_offset == 3, "the offset")
    time.sleep(3)  # another copy would come by now
    # Where the run was killed behind a push, the client goes to the target only 10 s later, and on from there (4.9).
    wait_until(lambda: progress(cluster, group, topic)[0].consumer_offset == 3, "the offset, once more")
    seen = Killed(
        round(after_s, 3), was_running, again.exit_code, _retries(cluster, name),
        progress(cluster, group, topic)[0].consumer_offset,
    )  # fmt: skip
    java.stop(name)
    return seen


def _retries(cluster: Cluster, name: str) -> int:
    return sum(each.body == "X0" and each.reconsume_times == 1 for each in cluster.java.attempts(name))
