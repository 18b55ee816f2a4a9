"""A minute of random faults per release; `make soak` has the long run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.random_faults import random_faults

from .harness.jars import VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_exit_0_means_all_of_it_and_no_outcome_is_contradicted(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQCTL_STATE", str(tmp_path / "state"))
    with random_faults(version, tmp_path) as faults:
        faults.run(60)
        assert not faults.wrong, f"seed {faults.seed}: " + "\n".join(faults.wrong)
        assert faults.counts
