"""`consume run` whose process is stopped for a while, beside a member of Java's. `make soak` stops it for longer."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .harness.cluster import Cluster
from .harness.consumer import our_consumers
from .harness.outages import run_outage

pytestmark = pytest.mark.timeout(150)


@pytest.mark.since_5
def test_a_member_that_was_stopped_goes_on_where_it_was(cluster: Cluster, tmp_path: Path) -> None:
    """Its connections stay open, so that nobody takes its queues; what waited for it comes once."""
    with our_consumers(cluster.namesrv, tmp_path / "ours") as ours:
        seen = run_outage(
            cluster, ours, "Stopped", out_s=20,
            begin=lambda member: member.process.send_signal(signal.SIGSTOP),
            end=lambda member: member.process.send_signal(signal.SIGCONT),
        )  # fmt: skip
    assert not seen.lost, seen
    assert not seen.again, seen
    assert not seen.taken_over, seen
    assert seen.went_on_s < 3, seen
    # The answers that came meanwhile were read before their requests were given up.
    assert "no answer" not in seen.said, seen.said
