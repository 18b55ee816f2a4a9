from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.change.seeded_sandbox import seeded


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadedSandbox]:
    """Run a sandbox with the group of seeded(); a test can name the release that it plays."""
    with seeded(getattr(request, "param", "5.4.0")) as running:
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        yield running
