"""The type of scenarios."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from rmqctl.sandbox.control_messages import Made
from rmqctl.sandbox.sandbox import Sandbox


class Scenario(Struct, frozen=True):
    """A situation to fill a sandbox with. `run` returns what it created."""

    summary: str
    run: Callable[[Sandbox], Awaitable[list[Made]]]
