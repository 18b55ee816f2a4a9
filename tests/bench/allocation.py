"""A whole group's shares, 10,000 clients and 100,000 queues, beside RocketMQ's own classes; memory; and no cluster.

Java's classes answer for one client at a time, as each client asks them: a whole group is that many calls. Both are
timed with sorted lists; what is to be below a limit is the whole of ours, which gets them as brokers and name servers
list them, one broker's queues after the other's, and sorts them first.
`python -m tests.bench.allocation FOLDER` is the process that shares.
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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rmqctl.model.queue import MessageQueue
from rmqctl.rules.allocate import Assignment, Options, find_strategy, sort_client_ids, sort_queues
from rmqctl.whatif.group_snapshot import GroupSnapshot, share_all
from tests.bench.measure import java, median, rmqctl, run_process
from tests.real.harness.jars import missing_tools

BROKER_COUNT, QUEUE_COUNT, CLIENT_COUNT = 1000, 100, 10_000
_VERSION = "5.4.0"
_RUN_COUNT = 5
_LIMIT_MIB = 1024
_OURS_ONLY = ("sticky", "lag-weighted")

Rows = list[tuple[str, str, str, bool]]


class _Case(NamedTuple):
    """A group of so many clients; Java is asked for `java_count` of them."""

    name: str
    wire_name: str
    client_count: int
    java_count: int
    goal_s: float

    @property
    def key(self) -> str:
        """The case as AllocateBench.java takes it."""
        return f"{self.wire_name}:{self.client_count}:{self.java_count}"


_CASES = (
    _Case("averagely", "AVG", CLIENT_COUNT, CLIENT_COUNT, 0.5),
    _Case("circle", "AVG_BY_CIRCLE", CLIENT_COUNT, CLIENT_COUNT, 0.5),
    _Case("consistent-hash", "CONSISTENT_HASH", 1000, 20, 3.0),
    # Java looks through its whole ring for each client that it puts on it (ConsistentHashRouter.getExistingReplicas),
    # so that one call takes more than a minute here; 20 would take half an hour.
    _Case("consistent-hash", "CONSISTENT_HASH", CLIENT_COUNT, 1, 3.0),
)


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
    queues = f"{BROKER_COUNT * QUEUE_COUNT:,} queues"
    rows: Rows = []
    for case in _CASES:
        measured_s, sorted_s, whole_s = java_s[case.key], ours["sorted"][case.key], ours["whole"][case.key]
        theirs_s = measured_s * case.client_count / case.java_count
        said = f"{theirs_s:,.2f} s"
        if case.java_count < case.client_count:
            said = f"{theirs_s:,.0f} s, extrapolated from {case.java_count} ({measured_s:.1f} s)"
        size = f"{case.client_count:,} clients x {queues}, {case.name}"
        rows += [
            (size, f"{whole_s:.3f} s", f"< {case.goal_s} s", whole_s < case.goal_s),
            (
                "    beside Java's classes, sorted before",
                f"{theirs_s / sorted_s:,.0f} times ({sorted_s:.3f} s; {said})", "> 1 times", theirs_s > sorted_s,
            ),
        ]  # fmt: skip
        differing = int(ours["differing"][case.key])
        rows.append(
            ("    clients with other queues than Java's", f"{differing} of {case.java_count:,}", "0", not differing)
        )
    size = f"{CLIENT_COUNT:,} clients x {queues}"
    rows += [(f"{size}, {name}", f"{ours['whole'][name]:.3f} s", "no peer", True) for name in _OURS_ONLY]
    rss_mib = ours["memory"]["rss_mib"]
    rows.append((f"{size}: memory, all of them", f"{rss_mib:.0f} MiB", f"< {_LIMIT_MIB} MiB", rss_mib < _LIMIT_MIB))
    return rows


def _command_rows() -> Rows:
    """Measure the command, its start and all of its JSON included."""
    size = ("--brokers", str(BROKER_COUNT), "--queues", str(QUEUE_COUNT), "--consumers", str(CLIENT_COUNT))
    rows: Rows = []
    for name in ("averagely", "circle", "consistent-hash"):
        run = run_process(rmqctl("whatif", "allocate", *size, "--strategy", name, "-o", "json"))
        figure = f"{run.rss_mib:.0f} MiB ({run.wall_s:.1f} s)"
        what = f"whatif allocate -o json, that size, {name}: memory"
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
    """Return how long the calls took, by case; the shares are in the folder then."""
    files = [str(folder / name) for name in ("queues", "ids", "shares")]
    done = subprocess.run(
        java(_VERSION, folder, "AllocateBench", *files, *(case.key for case in _CASES), jvm=("-Xmx2g",)),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=900,
    )  # fmt: skip
    keys = {case.key for case in _CASES}
    # RocketMQ's logging writes to the same stream.
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    found = {row[0]: float(row[1]) for row in rows if row[0] in keys}
    assert found.keys() == keys, done.stdout
    return found


def _share(folder: Path) -> dict[str, dict[str, float]]:
    """Share by every strategy; return seconds, clients with other queues than Java's, by case; and the memory.

    "whole" are seconds with sorting, "sorted" those without.
    """
    lines = [line.split("\t") for line in (folder / "queues").read_text().splitlines()]
    queues = [MessageQueue(topic, broker_name, int(queue_id)) for topic, broker_name, queue_id in lines]
    ids = (folder / "ids").read_text().splitlines()
    whole: dict[str, float] = {}
    alone: dict[str, float] = {}
    differing: dict[str, float] = {}
    previous: Assignment = {}
    for case in _CASES:
        few = ids[: case.client_count]
        whole[case.key], _ = _time_whole(case.name, Options(), queues, few)
        alone[case.key], shares = _time(partial(find_strategy(case.name, Options()).allocate, queues, few))
        differing[case.key] = _count_differing(shares, folder / "shares", case, queues)
        previous = previous or shares
    # For those that ask: a tenth of the clients had nothing yet, and queues differ in their work.
    had = {client_id: share for number, (client_id, share) in enumerate(previous.items()) if number % 10}
    weights = {mq: float(number % 977) for number, mq in enumerate(queues)}
    for name in _OURS_ONLY:
        whole[name], shares = _time_whole(name, Options(previous=had, weights=weights), queues, ids)
        assert (len(shares), sum(map(len, shares.values()))) == (len(ids), len(queues))
    rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"whole": whole, "sorted": alone, "differing": differing, "memory": {"rss_mib": rss_mib}}


def _time_whole(
    name: str, options: Options, queues: Sequence[MessageQueue], ids: Sequence[str]
) -> tuple[float, Assignment]:
    """Time all that the command does to share a group: sorting it, topic by topic."""
    dice = random.Random(6)
    starts = dice.sample(range(0, len(queues), QUEUE_COUNT), BROKER_COUNT)
    listed = tuple(mq for start in starts for mq in queues[start : start + QUEUE_COUNT])
    snapshot = GroupSnapshot(listed, tuple(dice.sample(ids, len(ids))))
    strategy = find_strategy(name, options)
    return _time(lambda: share_all(snapshot, strategy))


def _time(share: Callable[[], Assignment]) -> tuple[float, Assignment]:
    taken = []
    for _ in range(_RUN_COUNT):
        started = time.perf_counter()
        shares = share()
        taken.append(time.perf_counter() - started)
    return median(taken), shares


def _count_differing(shares: Assignment, path: Path, case: _Case, queues: Sequence[MessageQueue]) -> int:
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    theirs = {row[1]: [queues[int(number)] for number in row[2].split()] for row in rows if row[0] == case.key}
    assert len(theirs) == case.java_count
    return sum(shares[client_id] != share for client_id, share in theirs.items())


if __name__ == "__main__":
    print(json.dumps(_share(Path(sys.argv[1]))))
