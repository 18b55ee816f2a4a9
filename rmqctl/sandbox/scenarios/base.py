"""The type of scenarios."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from rmqctl.sandbox.sandbox import Sandbox

from .seeded_group import SeededGroup


class Scenario(Struct, frozen=True):
    """A situation to fill a sandbox with. `run` returns what it created."""

    summary: str
    run: Callable[[Sandbox], Awaitable[list[SeededGroup]]]
