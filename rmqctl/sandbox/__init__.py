"""An embedded name server and brokers, for demonstrations and tests. `Sandbox` is the public interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["Sandbox"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: pytest imports the plugin in this package at each start.
    if name == "Sandbox":
        from .sandbox import Sandbox

        return Sandbox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
