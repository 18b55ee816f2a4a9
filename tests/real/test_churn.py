"""A real group of Java clients and ours, one of which flaps, does what the simulation of its recording says."""

from __future__ import annotations

from pathlib import Path

import pytest

from .churn import flap, simulate
from .harness.cluster import Cluster


@pytest.mark.parametrize("flapper", ["java-1", "rmqctl-1"])
def test_what_is_observed_is_in_the_simulated_range(cluster: Cluster, tmp_path: Path, flapper: str) -> None:
    observed, recording = flap(cluster, tmp_path, for_s=120, flapper=flapper)
    document = simulate(recording, flapper=flapper, run_count=200)
    simulated = document["items"][0]
    for seen, name, unit in (
        (document["trace"]["moveCount"], "moveCount", 1),
        (observed.duplicate_count, "duplicateCount", 1),
        (observed.shared_s, "sharedMs", 1000),
        (observed.paused_s, "unownedMs", 1000),
    ):
        least, most = simulated[f"{name}Least"] / unit, simulated[f"{name}Most"] / unit
        assert least <= seen <= most, (name, observed, simulated)
