"""What a scenario reports."""

from __future__ import annotations

from msgspec import Struct


class SeededGroup(Struct, frozen=True, rename="camel"):
    """A topic and group that a scenario created. `message_count` messages were sent; `summary` is a readable text."""

    topic: str
    group: str
    message_count: int
    summary: str
