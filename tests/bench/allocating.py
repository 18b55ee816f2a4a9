"""A whole group's shares, 10,000 clients and 100,000 queues, beside RocketMQ's own classes; memory; and no cluster.

Java's classes answer for one client at a time, as each client asks them: the whole group is that many calls. They get
sorted lists; ours gets them shuffled and sorts them first. `python -m tests.bench.allocating FOLDER` is the process
that shares.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Assignment, Options, find_strategy, sort_client_ids, sort_queues
from rmqctl.whatif.scene import Scene, share_all
from tests.real.harness.jars import helper_classes, missing_tools, rocketmq_jars

from .measure import median, rmqctl, run_process

BROKER_COUNT, QUEUE_COUNT, CLIENT_COUNT = 1000, 100, 10_000
_VERSION = "5.4.0"
_RUN_COUNT = 5
_SAMPLE_COUNT = 20
# How many clients Java is measured with; of consistent hashing all of them would take most of an hour.
_JAVA_COUNTS = {"AVG": CLIENT_COUNT, "AVG_BY_CIRCLE": CLIENT_COUNT, "CONSISTENT_HASH": _SAMPLE_COUNT}
_GOALS_S = {"averagely": 0.5, "circle": 0.5, "consistent-hash": 3.0}
_WIRE_NAMES = {"averagely": "AVG", "circle": "AVG_BY_CIRCLE", "consistent-hash": "CONSISTENT_HASH"}
_OURS_ONLY = ("sticky", "lag-weighted")
_LIMIT_MIB = 1024

Rows = list[tuple[str, str, str, bool]]


def measure() -> Rows:
    """Return our times beside Java's, whether the shares are the same, and the memory of whole processes."""
    missing = missing_tools()
    if missing is not None:
        raise RuntimeError(missing)
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-allocate-"))
    try:
        _write_inputs(folder)
        java_s = _run_java(folder)
        ours = json.loads(
            subprocess.run([sys.executable, "-m", __name__, str(folder)], stdout=subprocess.PIPE, check=True).stdout
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [*_rows(ours, java_s), *_command_rows()]


def _rows(ours: Mapping[str, Mapping[str, float]], java_s: Mapping[str, float]) -> Rows:
    size = f"{CLIENT_COUNT:,} clients x {BROKER_COUNT * QUEUE_COUNT:,} queues"
    rows: Rows = []
    for name, goal_s in _GOALS_S.items():
        count = _JAVA_COUNTS[_WIRE_NAMES[name]]
        theirs_s, ours_s = java_s[_WIRE_NAMES[name]] * CLIENT_COUNT / count, ours["seconds"][name]
        said = "" if count == CLIENT_COUNT else f", extrapolated from {count} clients"
        figure = f"{ours_s:.3f} s; Java's {theirs_s:.2f} s{said}: {theirs_s / ours_s:.1f} times"
        rows.append((f"{size}, {name}", figure, f"< {goal_s} s, ahead", ours_s < goal_s and theirs_s > ours_s))
        differing = int(ours["differing"][name])
        rows.append((
            f"{size}, {name}: clients with other queues than Java's", f"{differing} of {count:,}", "0", not differing
        ))  # fmt: skip
    rows += [(f"{size}, {name}", f"{ours['seconds'][name]:.3f} s", "no peer", True) for name in _OURS_ONLY]
    rss_mib = ours["memory"]["rss_mib"]
    rows.append((f"{size}: memory, all of them", f"{rss_mib:.0f} MiB", f"< {_LIMIT_MIB} MiB", rss_mib < _LIMIT_MIB))
    return rows


def _command_rows() -> Rows:
    """Measure the command, its start and all of its JSON included."""
    size = ("--brokers", str(BROKER_COUNT), "--queues", str(QUEUE_COUNT), "--consumers", str(CLIENT_COUNT))
    rows: Rows = []
    for words in (("--strategy", "averagely"), ("--compare", ",".join((*_GOALS_S, *_OURS_ONLY)))):
        run = run_process(rmqctl("whatif", "allocate", *size, *words, "-o", "json"))
        what = f"whatif allocate -o json of that size, {words[0]} {words[1].count(',') + 1}: whole process"
        figure = f"{run.rss_mib:.0f} MiB ({run.wall_s:.1f} s)"
        rows.append((what, figure, f"< {_LIMIT_MIB} MiB", run.rss_mib < _LIMIT_MIB))
    return rows


def _write_inputs(folder: Path) -> None:
    """Write queues and ids as clients would have them sorted, a line each."""
    queues = [
        MessageQueue("Bench", f"broker-{number}", queue_id)
        for number in range(BROKER_COUNT) for queue_id in range(QUEUE_COUNT)
    ]  # fmt: skip
    ids = [f"10.{number >> 8}.{number & 255}.7@{number * 37 % 32768}#{number * 7919}" for number in range(CLIENT_COUNT)]
    (folder / "queues").write_text("".join(f"{mq[0]}\t{mq[1]}\t{mq[2]}\n" for mq in sort_queues(queues)))
    (folder / "ids").write_text("".join(f"{client_id}\n" for client_id in sort_client_ids(ids)))


def _run_java(folder: Path) -> dict[str, float]:
    """Return how long the calls took, by strategy; the shares are in the folder then."""
    classpath = f"{helper_classes(_VERSION)}:{rocketmq_jars(_VERSION)}/*"
    files = [str(folder / name) for name in ("queues", "ids", "shares")]
    wanted = [f"{name}={count}" for name, count in _JAVA_COUNTS.items()]
    done = subprocess.run(
        ["java", "-Xmx2g", f"-Duser.home={folder}", "-cp", classpath, "AllocateBench", *files, *wanted],
        stdout=subprocess.PIPE, text=True, check=True, timeout=600,
    )  # fmt: skip
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 2]
    found = {name: float(seconds) for name, count, seconds in lines if int(count) == _JAVA_COUNTS[name]}
    assert found.keys() == _JAVA_COUNTS.keys(), done.stdout
    return found


def _share(folder: Path) -> dict[str, dict[str, float]]:
    """Share by every strategy; return seconds, clients with other queues than Java's, by name; and the memory."""
    lines = [line.split("\t") for line in (folder / "queues").read_text().splitlines()]
    queues = [MessageQueue(topic, broker_name, int(queue_id)) for topic, broker_name, queue_id in lines]
    ids = (folder / "ids").read_text().splitlines()
    dice = random.Random(6)
    shuffled = Scene(tuple(dice.sample(queues, len(queues))), tuple(dice.sample(ids, len(ids))))
    seconds: dict[str, float] = {}
    differing: dict[str, float] = {}
    weights = {mq: float(number % 977) for number, mq in enumerate(queues)}
    previous: Assignment = {}
    for name in (*_GOALS_S, *_OURS_ONLY):
        # For those that ask: a tenth of the clients had nothing yet, and queues differ in their work.
        had = {client_id: share for number, (client_id, share) in enumerate(previous.items()) if number % 10}
        strategy = find_strategy(name, Options(previous=had, weights=weights))
        taken = []
        for _ in range(_RUN_COUNT):
            started = time.perf_counter()
            shares = share_all(shuffled, strategy)
            taken.append(time.perf_counter() - started)
        seconds[name] = median(taken)
        assert sum(map(len, shares.values())) == len(queues)
        assert len(shares) == len(ids)
        if name in _WIRE_NAMES:
            differing[name] = _count_differing(shares, folder / "shares", _WIRE_NAMES[name], queues)
        previous = previous or shares
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "differing": differing, "memory": {"rss_mib": rss_mib}}


def _count_differing(shares: Assignment, path: Path, wire_name: str, queues: Sequence[MessageQueue]) -> int:
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    theirs = {client_id: [queues[int(i)] for i in numbers.split()] for name, client_id, numbers in rows
              if name == wire_name}  # fmt: skip
    assert len(theirs) == _JAVA_COUNTS[wire_name]
    return sum(shares[client_id] != share for client_id, share in theirs.items())


if __name__ == "__main__":
    print(json.dumps(_share(Path(sys.argv[1]))))
