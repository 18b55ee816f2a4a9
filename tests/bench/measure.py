"""Measures whole processes: wall and CPU time, and the largest memory, as the system accounts them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
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


def run_process(command: Sequence[str], env: Mapping[str, str] | None = None) -> Run:
    """Run a command that must succeed."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command}: exit {process.returncode}: {errors.decode()[-500:]}")
    return Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


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
