"""The version of a table (DataVersion)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .profile import Profile


class DataVersion:
    """The number of changes of a table, and the time of the last one."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.counter = 0
        self.changed_at_ms = now_ms()

    def next(self) -> None:
        """Count a change."""
        self.counter += 1
        self.changed_at_ms = self._now_ms()

    def to_wire(self, profile: Profile) -> dict[str, int]:
        """Return the version as a JSON object."""
        wire = {"counter": self.counter, "timestamp": self.changed_at_ms}
        return {**wire, "stateVersion": 0} if profile.is_5 else wire


# The version of a table that is always empty.
NEVER_CHANGED = {"counter": 0, "stateVersion": 0, "timestamp": 0}


def read_version(profile: Profile, reported: dict[str, Any]) -> dict[str, int]:
    """Return a DataVersion with the fields that this release compares."""
    names = ("counter", "timestamp", "stateVersion") if profile.is_5 else ("counter", "timestamp")
    return {name: int(reported.get(name, 0)) for name in names}
