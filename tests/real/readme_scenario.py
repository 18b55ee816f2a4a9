"""The cluster behind README's examples. `python -m tests.real.readme_scenario` writes their output anew."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.readme import rewrite

from .harness.cluster import Cluster

VERSION = "5.4.0"


def set_the_scene(cluster: Cluster) -> None:
    """Two groups read one topic: `billing` has a message that never ends, `reports` is switched off."""
    cluster.create_topic("orders", queue_count=2)
    for name in cluster.brokers:
        for queue_id in range(2):
            cluster.java.produce("orders", 100, queue=f"{name}:{queue_id}", prefix=f"{name[-1]}{queue_id}-")
    cluster.java.consume("reports", "reports", "orders")
    cluster.java.wait_consumed("reports", 400)
    cluster.java.stop("reports")
    cluster.java.consume("billing", "billing", "orders", stuck="a0-10", ip="10.1.0.7")
    cluster.java.wait_consumed("billing", 399)
    cluster.java.produce("orders", 3, queue="broker-b:1", prefix="late-")
    cluster.java.wait_consumed("billing", 402)
    cluster.java.persist("billing")


def run_example(command: str, namesrv: str) -> str:
    """Run an example as a user would, in a pipe; return what it printed, notes where they came."""
    words = shlex.split(command)
    assert words[0] == "rmqctl", command
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    done = subprocess.run(
        [sys.executable, "-m", "rmqctl", *words[1:]],
        env={**env, "NAMESRV_ADDR": namesrv, "COLUMNS": "100"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def main() -> None:
    """Write README's examples anew from a real cluster."""
    with tempfile.TemporaryDirectory(prefix="rmqctl-readme-") as folder:
        cluster = Cluster(VERSION, Path(folder) / "home", broker_count=2)
        try:
            cluster.wait()
            set_the_scene(cluster)
            rewrite(lambda command: run_example(command, cluster.namesrv))
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
