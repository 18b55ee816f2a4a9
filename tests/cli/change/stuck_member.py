"""A sandbox with a member that is stuck, for the tests of `clean-expired`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rmqctl.sandbox.sandbox_thread import ThreadedSandbox
from rmqctl.sandbox.scenarios.consumer import ScenarioConsumer
from tests.cli.calls import call

from .seeded_sandbox import document, seeded

CLEAN = ("clean-expired", "G", "--for", "1ms", "--older-than", "1ms")


@contextmanager
def stuck_member(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, brokers: int
) -> Iterator[ThreadedSandbox]:
    """Run a sandbox whose member is stuck at offset 6 of 10 in both queues of each broker."""
    with seeded(brokers=brokers, unique=True) as running:
        monkeypatch.setenv("NAMESRV_ADDR", running.addr)
        member = running.call(lambda inner: ScenarioConsumer(inner, "c1", "G", "T", sticks=lambda _: True))
        running.run(member.start())
        wait_stuck(capsys, 2 * brokers)
        yield running
        running.run(member.aclose())


def wait_stuck(capsys: pytest.CaptureFixture[str], count: int) -> None:
    """Wait until so many queues are stuck."""
    until_s = time.monotonic() + 60
    while document(call(capsys, *CLEAN, "-o", "json"))["summary"]["stuckCount"] < count:
        assert time.monotonic() < until_s
