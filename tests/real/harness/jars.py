"""Fetches RocketMQ's jars from Maven Central and compiles the Java helpers, once, outside the clone."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

JAVA_DIR = Path(__file__).parent.parent / "java"
VERSIONS = ("5.4.0", "4.9.7")
# The newest on Maven Central; the core of the tests runs on it as well (conftest.py).
RELEASES = (*VERSIONS, "5.5.0")


def missing_tools() -> str | None:
    """Say what to install when Java or Maven is missing, or None when both are there."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if not missing:
        return None
    return f"{', '.join(missing)} not found; install a JDK 17 and Maven (Debian: openjdk-17-jdk-headless maven)"


def cache_dir() -> Path:
    """Return the folder for jars and compiled helpers (RMQCTL_TEST_CACHE, else below ~/.cache)."""
    configured = os.environ.get("RMQCTL_TEST_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "rmqctl-tests"


def cached(name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder of the cache, filled by `make` when it is not there yet.

    Processes take turns: Maven's repository is no more made for two at once than a folder that another one already uses
    is to be replaced. An interrupted run leaves only its partial folder, which is made anew.
    """
    folder = cache_dir() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            partial = folder.with_name(f"{name}.{os.getpid()}")
            for leftover in (folder, partial):
                shutil.rmtree(leftover, ignore_errors=True)
            partial.mkdir()
            make(partial)
            (partial / ".complete").touch()
            partial.rename(folder)
    return folder


def rocketmq_jars(version: str) -> Path:
    """Return a folder with all jars of one RocketMQ version, fetching them when they are not there yet."""
    return _fetched(f"rocketmq-{version}", JAVA_DIR / "pom.xml", version)


def proxy_jars(version: str) -> Path:
    """Return a folder with the proxy of a RocketMQ 5 version and a gRPC client, fetched like the others."""
    return _fetched(f"proxy-{version}", JAVA_DIR / "proxy" / "pom.xml", version)


def suite_jars(version: str) -> Path:
    """Return a folder with Apache's client suites of a release that has them on Maven Central, and what they need."""
    return _fetched(f"suites-{version}", JAVA_DIR / "suites" / "pom.xml", version)


def suite_classes(version: str, suites: str) -> Path:
    """Return a folder with tests/real/java/suites compiled against a release and the suites of `suites`."""
    folder = JAVA_DIR / "suites"
    sources = [*folder.glob("*.java"), *(folder / ("only4" if version.startswith("4.") else "since5")).glob("*.java")]
    return _compiled(f"suite-classes-{version}", sources, rocketmq_jars(version), suite_jars(suites))


def _fetched(name: str, pom: Path, version: str) -> Path:
    def fetch(folder: Path) -> None:
        subprocess.run(
            ["mvn", "-q", "-B", "-f", str(pom), f"-Drocketmq.version={version}",
             "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies",
             f"-DoutputDirectory={folder}", "-DincludeScope=runtime"],
            check=True, timeout=900,
        )  # fmt: skip

    return cached(name, fetch)


def helper_classes(version: str) -> Path:
    """Return a folder with tests/real/java compiled against one RocketMQ version."""
    return _compiled(f"helpers-{version}", JAVA_DIR.glob("*.java"), rocketmq_jars(version))


def proxy_helper_classes(version: str) -> Path:
    """Return a folder with tests/real/java/proxy compiled against the gRPC client."""
    return _compiled(f"proxy-helpers-{version}", (JAVA_DIR / "proxy").glob("*.java"), proxy_jars(version))


def _compiled(name: str, sources: Iterable[Path], *jars: Path) -> Path:
    sources = sorted(sources)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]

    def compile_all(folder: Path) -> None:
        subprocess.run(
            ["javac", "-nowarn", "-Xlint:none", "-cp", ":".join(f"{each}/*" for each in jars), "-d", str(folder),
             *map(str, sources)],
            check=True, timeout=120,
        )  # fmt: skip

    return cached(f"{name}-{digest}", compile_all)
