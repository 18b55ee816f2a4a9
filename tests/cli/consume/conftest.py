"""Consumers that do not make tests wait."""

from __future__ import annotations

import pytest

from . import eager


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pull at once, and look often whether the group has caught up."""
    monkeypatch.setattr(eager.SETTINGS, eager.EagerSettings)
    monkeypatch.setattr("rmqctl.cli.consume.consume_run._CAUGHT_UP_LOOK_S", 0.02)
