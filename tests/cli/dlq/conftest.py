"""Ten dead letters on a sandbox, for the tests of replays; other tests of this folder have a sandbox of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqctl.changes import late_writes
from rmqctl.changes.dlq import copies, run
from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from tests.cli.calls import call

from .replays import COUNT, Captured, letter, put


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    # Nothing is on its way to a sandbox in this process.
    monkeypatch.setattr(copies, "_IN_FLIGHT_S", 0.0)
    monkeypatch.setattr(run, "_AGAIN_S", 0.0)
    monkeypatch.setattr(late_writes, "LOOK_AGAIN_S", 0.1)


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Iterator[ThreadedSandbox]:
    """Two brokers with topics orders and payments, and ten dead letters of group G, five of each."""
    with ThreadedSandbox(brokers=2) as running:
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)

        def make(inner: Any) -> None:
            for broker in inner.brokers.values():
                for topic in ("%DLQ%G", "%RETRY%G", "orders", "payments"):
                    broker.topics.create_for_group(topic, 1, 6)

        running.call(make)
        assert call(capsys, "group", "create", "G", "--yes").code == 0
        put(running, [letter(number, ("orders", "payments")[number % 2]) for number in range(COUNT)])
        yield running
