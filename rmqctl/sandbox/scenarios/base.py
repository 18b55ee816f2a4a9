"""What a scenario is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from rmqctl.sandbox.sandbox import Sandbox


class Scenario(Struct, frozen=True):
    """Something to fill a sandbox with. `run` returns lines that tell what was made, for people."""

    summary: str
    run: Callable[[Sandbox], Awaitable[list[str]]]
