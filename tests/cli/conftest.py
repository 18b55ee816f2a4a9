"""Every test of the command line starts with an empty environment and no configuration file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.scenarios.table import SCENARIOS
from tests.admin.cluster import Cluster
from tests.cli.scripted_server import Serve, served

from .calls import closed_address


@pytest.fixture(autouse=True)
def config_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return where the configuration file is looked for; there is none yet."""
    path = tmp_path / "config.toml"
    monkeypatch.setenv("RMQCTL_CONFIG", str(path))
    for name in ("NAMESRV_ADDR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    # One attempt gets a third of it; 10 s are for people who wait, not for machines that do other things meanwhile.
    monkeypatch.setattr("rmqctl.cli.invocation._DEFAULT_TIMEOUT_MS", 60_000)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("RMQCTL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RMQCTL_RUNTIME", str(tmp_path / "runtime"))
    return path


@pytest.fixture(autouse=True)
def _quick_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time between two readings: in most tests nothing moves meanwhile."""
    monkeypatch.setattr("rmqctl.cli.whatif.sources._SAMPLE_S", 0.05)
    monkeypatch.setattr("rmqctl.gate.readings._SAMPLE_S", 0.05)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return what serves clusters."""
    with ExitStack() as clusters:

        def start(cluster: Cluster, *, down: Iterable[str] = ()) -> Cluster:
            cluster.addresses |= {name: closed_address() for name in down}
            monkeypatch.setenv("NAMESRV_ADDR", clusters.enter_context(served(cluster)))
            return cluster

        yield start


@pytest.fixture(scope="module")
def shop() -> Iterator[ThreadedSandbox]:
    """Run groups that are up to date (warehouse) and offline with a lag of 200 (shipping)."""
    with ThreadedSandbox(brokers=2) as sandbox:
        for name in ("lagging", "healthy"):
            sandbox.run(SCENARIOS[name].run(sandbox.sandbox))
        yield sandbox
