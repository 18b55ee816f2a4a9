"""README's worked examples come from a real cluster and still match it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.readme import examples, needs_cluster, normalised

from .harness.cluster import Cluster
from .readme_scenario import VERSION, run_example, set_the_scene


def test_examples_match_a_real_cluster(tmp_path: Path) -> None:
    cluster = Cluster(VERSION, tmp_path / "home", broker_count=2)
    try:
        cluster.wait()
        set_the_scene(cluster)
        asked = [example for example in examples() if needs_cluster(example)]
        assert asked
        for example in asked:
            assert normalised(run_example(example.command, cluster.namesrv)) == normalised(example.output), (
                f"README shows something else for: {example.command} (make readme writes it anew)"
            )
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        ("lag 90  36m15s", "lag 90 2s", True),
        ("lag 90", "lag 91", False),
        ("broker-a 127.0.0.1:10911 0.0 14%", "broker-a  127.0.0.1:4711  12.5  3%", True),
        ("192.0.2.2@4859#1459148543786 T", "10.0.0.1@7#9 T", True),
        ("192.0.2.2@4859#1459148543786 2/2 0 6.65 averagely", "10.0.0.1@7#9  2/2 14  0  averagely", True),
        ("192.0.2.2@4859#1459148543786 2/2 0 circle", "10.0.0.1@7#9  2/2 14  averagely", False),
    ],
)
def test_only_what_must_differ_may_differ(one: str, other: str, are_alike: bool) -> None:
    assert (normalised(one) == normalised(other)) is are_alike
