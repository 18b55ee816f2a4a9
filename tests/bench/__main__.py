"""Runs the benchmarks against one real cluster of two brokers and prints a table; `make bench`.

`python -m tests.bench cold` runs one part: cold, groups, members, decoding, finding or consuming; sandbox-send,
sandbox-pull, dlq, sandbox-start, sandbox-heartbeats, sandbox-kills, allocate, churn, reset or clean, of which the last
seven need no cluster.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from tests.bench import (
    allocation,
    churn,
    clean_expired,
    consumption,
    dead_letters,
    decoder,
    many_groups,
    members,
    message_find,
    offset_reset,
    sandbox_heartbeats,
    sandbox_kills,
    sandbox_messages,
    sandbox_start,
)
from tests.real.harness.cluster import Cluster
from tests.real.harness.jars import missing_tools, rocketmq_jars

from .measure import alternate, median, rmqctl, run_process

_VERSION = "5.4.0"


def main() -> int:
    """Print what was measured, beside what must be reached; exit 1 when something is not."""
    wanted = sys.argv[1:] or [*_PARTS, *_PARTS_ALONE]
    rows: list[tuple[str, str, str, bool]] = []
    for name, measure_alone in _PARTS_ALONE.items():
        if name in wanted:
            rows += measure_alone()
    if _PARTS.keys() & set(wanted):
        missing = missing_tools()
        if missing is not None:
            print(missing, file=sys.stderr)
            return 1
        rows += _with_cluster(wanted)
    for what, figure, goal, reached in rows:
        print(f"{'ok  ' if reached else 'MISS'}  {what:<66} {figure:<44} {goal}")
    return 0 if all(reached for *_, reached in rows) else 1


def _with_cluster(wanted: list[str]) -> list[tuple[str, str, str, bool]]:
    folder = Path(tempfile.mkdtemp(prefix="rmqctl-bench-"))
    cluster = Cluster(_VERSION, folder / "home", broker_count=2, jvm=())
    rows: list[tuple[str, str, str, bool]] = []
    try:
        cluster.wait()
        for name, measure in _PARTS.items():
            if name in wanted:
                rows += measure(cluster)
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return rows


def _cold(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    cluster.create_topic("Cold")
    cluster.java.produce("Cold", 400)
    cluster.java.consume("cold", "ColdGroup", "Cold")
    cluster.java.wait_consumed("cold", 400)
    cluster.java.produce("Cold", 40)
    cluster.java.persist("cold")
    rows = []
    ours = rmqctl("-n", cluster.namesrv, "offset", "show", "ColdGroup")
    home = ["-Xmx512m", f"-Duser.home={cluster.folder}", "-cp", f"{rocketmq_jars(_VERSION)}/*"]
    mqadmin = ["java", *home, "org.apache.rocketmq.tools.command.MQAdminStartup", "consumerProgress"]
    theirs = [*mqadmin, "-n", cluster.namesrv, "-g", "ColdGroup"]
    for what in ("online, lagging", "offline, quiet"):
        if what == "offline, quiet":
            cluster.java.wait_consumed("cold", 440)
            cluster.java.stop("cold")
        a, b = alternate(ours, theirs, 7)
        wall = median([run.wall_s for run in b]) / median([run.wall_s for run in a])
        cpu = median([run.cpu_s for run in b]) / median([run.cpu_s for run in a])
        ms = median([run.wall_s for run in a]) * 1000
        figure = f"{wall:.1f} times ({ms:.0f} ms), CPU {cpu:.1f} times"
        rows.append((f"offset show, whole process, beside mqadmin ({what})", figure, ">= 25 times", wall >= 25))
    limits = ("--max-lag", "1000", "--max-time-lag", "1h", "--min-members", "0")
    checks = [run_process(rmqctl("-n", cluster.namesrv, "check", "ColdGroup", *limits)).wall_s for _ in range(15)]
    ms = median(checks) * 1000
    rows.append(("check, whole process", f"{ms:.0f} ms", "< 300 ms", ms < 300))
    completion = ("complete-words", "--namesrv", cluster.namesrv, "offset", "show", "")
    for words in (("--help",), ("offset", "show", "--help"), completion):
        ms = median([run_process(rmqctl(*words)).wall_s for _ in range(15)]) * 1000
        rows.append((f"rmqctl {' '.join(words)}", f"{ms:.0f} ms", "< 150 ms", ms < 150))
    return rows


def _groups(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    many_groups.fill(cluster)
    words = ("-n", cluster.namesrv, "group", "list")
    runs, ageless = alternate(rmqctl(*words), many_groups.without_ages(*words), 5)
    wall_s, rss_mib = median([run.wall_s for run in runs]), max(run.rss_mib for run in runs)
    ratio = wall_s / median([run.wall_s for run in ageless])
    what = f"group list, {many_groups.GROUP_COUNT} groups on two brokers"
    looks = [run_process(rmqctl("-n", cluster.namesrv, "diagnose", "--all", "--settle", "0s")) for _ in range(3)]
    looked_s, looked_mib = median([run.wall_s for run in looks]), max(run.rss_mib for run in looks)
    check = rmqctl("-n", cluster.namesrv, "check", "*", "--min-members", "0")
    checked_s = median([run_process(check).wall_s for _ in range(3)])
    diagnosed = f"diagnose --all, {many_groups.GROUP_COUNT} groups on two brokers"
    return [
        (what, f"{wall_s:.2f} s", "< 2 s", wall_s < 2),
        (f"{what}: beside one that asks for no ages", f"{ratio:.2f} times", "< 1.5 times", ratio < 1.5),
        (f"{what}: memory", f"{rss_mib:.0f} MiB", "< 120 MiB", rss_mib < 120),
        (
            f"check, a limit for each of {many_groups.GROUP_COUNT} groups",
            f"{checked_s:.1f} s",
            "< 20 s",
            checked_s < 20,
        ),
        (diagnosed, f"{looked_s:.1f} s", "< 20 s", looked_s < 20),
        (f"{diagnosed}: memory", f"{looked_mib:.0f} MiB", "< 200 MiB", looked_mib < 200),
    ]


def _members(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    wall_s, rss_mib = _crowded(cluster, members.CROWD, "group", "describe")
    # The two readings are 2 s apart by default.
    vast_s, vast_mib = _crowded(cluster, members.VAST_CROWD, "diagnose", "--settle", "0s")
    who = f"{members.MEMBER_COUNT} members on two brokers"
    what = f"diagnose, {who}, {2 * members.VAST_CROWD.queue_count:,} queues: beyond --for"
    return [
        (f"group describe, {who}", f"{wall_s:.2f} s ({rss_mib:.0f} MiB)", "< 1 s", wall_s < 1),
        (what, f"{vast_s - 2:.2f} s ({vast_mib:.0f} MiB)", "< 3 s", vast_s - 2 < 3),
    ]


def _crowded(cluster: Cluster, crowd: members.Crowd, *words: str) -> tuple[float, float]:
    """Return the median time in s and the most memory in MiB of a command about a group of many members."""
    command = rmqctl("-n", cluster.namesrv, *words, crowd.group)
    runs = asyncio.run(members.with_members(cluster, crowd, lambda: [run_process(command) for _ in range(5)]))
    return median([run.wall_s for run in runs]), max(run.rss_mib for run in runs)


def _decoding(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    address = decoder.fill(cluster)
    rate = asyncio.run(decoder.decoding_rate(cluster.namesrv, address))
    ours, bare = asyncio.run(decoder.pull_rates(cluster.namesrv, address))
    pulled = f"{ours / bare:.2f} ({ours:,.0f} beside {bare:,.0f} msg/s)"
    return [
        ("decoding messages of 1 KiB, one core", f"{rate:,.0f} msg/s", ">= 250,000 msg/s", rate >= 250_000),
        ("pull loop over 8 queues beside a bare asyncio loop", pulled, ">= 0.8", ours / bare >= 0.8),
    ]


def _finding(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    address = message_find.fill(cluster)
    found, bare, rss_mib = message_find.find_rates(cluster, address)
    late_ms = message_find.tail_latency_ms(cluster)
    beside = f"{found / bare:.2f} ({found:,.0f} beside {bare:,.0f} msg/s)"
    what = f"message find --contains, {message_find.MESSAGE_COUNT:,} messages of {message_find.SIZE_BYTES} B"
    return [
        (f"{what}, beside the pull loop", beside, ">= 0.8", found / bare >= 0.8),
        (f"{what}: memory", f"{rss_mib:.0f} MiB", "< 120 MiB", rss_mib < 120),
        ("message tail: from stored to printed", f"{late_ms:.0f} ms", "< 1000 ms", late_ms < 1000),
    ]


def _consuming(cluster: Cluster) -> list[tuple[str, str, str, bool]]:
    decoder.fill(cluster)
    return [
        *consumption.measure_rates(cluster),
        *consumption.measure_orderly(cluster),
        *consumption.measure_latency(cluster),
        *consumption.measure_memory(cluster),
    ]


_PARTS = {
    "cold": _cold, "groups": _groups, "members": _members, "decoding": _decoding, "finding": _finding,
    "consuming": _consuming,
    "sandbox-send": sandbox_messages.measure_sends, "sandbox-pull": sandbox_messages.measure_pulls,
    "dlq": dead_letters.measure,
}  # fmt: skip
_PARTS_ALONE = {
    "sandbox-start": sandbox_start.measure, "sandbox-heartbeats": sandbox_heartbeats.measure,
    "sandbox-kills": sandbox_kills.measure, "allocate": allocation.measure, "reset": offset_reset.measure,
    "clean": clean_expired.measure, "churn": churn.measure,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
