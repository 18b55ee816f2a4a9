"""Measures whole processes: wall and CPU time, and the largest memory, as the system accounts them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.real.harness.jars import helper_classes, rocketmq_jars


@dataclass(frozen=True)
class Run:
    """One run of a process."""

    wall_s: float
    cpu_s: float
    rss_mib: float


# A process counts as its own what it was before its program began: a copy of who started it. So it is started by a
# small one.
_LAUNCHER = """
import json, resource, subprocess, sys, time
began_s = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
wall_s = time.perf_counter() - began_s
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
errors = done.stderr.decode(errors="replace")[-500:]
json.dump([done.returncode, errors, wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024], sys.stdout)
"""


def run_process(command: Sequence[str], env: Mapping[str, str] | None = None) -> Run:
    """Run a command that must succeed."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    told = subprocess.run(launcher, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, check=True).stdout
    code, errors, *figures = json.loads(told)
    if code != 0:
        raise RuntimeError(f"{command}: exit {code}: {errors}")
    return Run(*figures)


def rmqctl(*words: str) -> list[str]:
    """Return the command that starts rmqctl as its console script does."""
    return [str(Path(sys.executable).with_name("rmqctl")), *words]


def java(version: str, home: Path, main: str, *words: str, jvm: Sequence[str] = ()) -> list[str]:
    """Return the command that runs one of the Java helpers with the jars of a release."""
    classpath = f"{helper_classes(version)}:{rocketmq_jars(version)}/*"
    return ["java", *jvm, f"-Duser.home={home}", "-cp", classpath, main, *words]


def alternate(one: Sequence[str], other: Sequence[str], count: int) -> tuple[list[Run], list[Run]]:
    """Run two commands in turn, so that both meet the same machine; the first pair is not counted."""
    ones, others = [], []
    for number in range(count + 1):
        a, b = run_process(one), run_process(other)
        if number:
            ones.append(a)
            others.append(b)
    return ones, others


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)
