"""The sandbox answers as the release that it plays: each script of requests, sent to both, gets the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from .differential.runner import Script, Target, compare, find_scripts, is_slow
from .harness.cluster import Cluster, Reachable
from .harness.jars import RELEASES
from .harness.sandbox import SandboxProcess


@pytest.fixture(scope="module", params=RELEASES)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster for these tests alone: scripts change settings and delete what others would miss."""
    folder = tmp_path_factory.mktemp(f"compared-{request.param}") / "home"
    settings = {"enablePropertyFilter": "true", "transactionCheckInterval": "1000"}
    running = Cluster(request.param, folder, settings=settings)
    try:
        yield running.wait()
    finally:
        running.stop()


@pytest.fixture(scope="module")
def counterpart(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    """Run a sandbox of the cluster's release and size."""
    running = SandboxProcess(
        cluster.version, tmp_path_factory.mktemp("counterpart") / "home", broker_count=len(cluster.addresses)
    )
    yield running
    running.stop()


@pytest.fixture(scope="module")
def waiting(
    request: pytest.FixtureRequest, cluster: Cluster, counterpart: SandboxProcess
) -> Iterator[dict[Script, Future[str]]]:
    """Compare with those scripts that spend their time in waiting, all at once, before the others."""
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    wanted = {call["script"] for call in calls if "script" in call and call.get("cluster") == cluster.version}
    slow = [script for script in wanted if is_slow(script)]
    with ThreadPoolExecutor(max_workers=max(1, len(slow))) as threads:
        yield {script: threads.submit(compare, script, _target(cluster), _target(counterpart)) for script in slow}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=name, marks=[pytest.mark.since_5] if getattr(script, "since_5", False) else [])
        for name, script in sorted(find_scripts(), key=lambda found: not is_slow(found[1]))
    ],
)
def test_answers_are_the_same(
    cluster: Cluster, counterpart: SandboxProcess, waiting: dict[Script, Future[str]], script: Script
) -> None:
    started = waiting.get(script)
    different = started.result() if started else compare(script, _target(cluster), _target(counterpart))

    assert not different, f"\n{different}"


def _target(reachable: Reachable) -> Target:
    return Target(reachable.namesrv, reachable.addresses["broker-a"], reachable.version)
