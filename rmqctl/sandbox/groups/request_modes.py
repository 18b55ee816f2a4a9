"""Whether groups pull or pop (MessageRequestModeManager)."""

from __future__ import annotations

from typing import Any

from rmqctl.sandbox.storage.state import StateStore

PULL, POP = "PULL", "POP"

_TABLE = "request_modes"


class RequestModes:
    """The modes set for topics and groups, as in the requests; written through."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._modes: dict[tuple[str, str], dict[str, Any]] = {
            (item["topic"], item["consumerGroup"]): item for item in state.load(_TABLE).values()
        }

    def put(self, item: dict[str, Any]) -> None:
        """Set the mode of a topic and a group."""
        topic, group = item["topic"], item["consumerGroup"]
        self._state.put(_TABLE, f"{topic}@{group}", item)
        self._modes[topic, group] = item

    def find(self, topic: str, group: str) -> dict[str, Any] | None:
        """Return the mode that was set, or None."""
        return self._modes.get((topic, group))

    def to_wire(self) -> dict[str, dict[str, Any]]:
        """Return all modes as JSON data: by topic, then by group."""
        table: dict[str, dict[str, Any]] = {}
        for (topic, group), item in self._modes.items():
            table.setdefault(topic, {})[group] = item
        return table
