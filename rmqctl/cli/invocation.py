"""One run of a command: its settings, and the client that it asks."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from rmqctl.errors import UsageError
from rmqctl.rules.durations import parse_duration_ms
from rmqctl.rules.names import closest

from .config import ContextConfig, read_context
from .globals import FORMATS, given_globals

_T = TypeVar("_T")
_DEFAULT_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Display:
    """How to show a result."""

    format: str = "table"
    columns: tuple[str, ...] = ()
    with_headers: bool = True
    with_notes: bool = True
    with_color: bool = True


class Invocation:
    """The global options of this run, with the context and the environment behind them."""

    def __init__(self, ctx: Any, *, needs_cluster: bool = True) -> None:
        self._given = given_globals(ctx)
        self._context: ContextConfig | None = None
        if needs_cluster and self._given.get("namesrv") is None:
            self._context = self._read_context()
        self.display = self._display()

    def _read_context(self) -> ContextConfig | None:
        """Read the configuration only when it decides something: -n and the environment stand above it."""
        wanted = self._given.get("context")
        if wanted is None and os.environ.get("NAMESRV_ADDR"):
            return None
        return read_context(wanted)

    def _display(self) -> Display:
        output = self._given.get("output") or (self._context.output if self._context else None) or "table"
        if output not in FORMATS:
            like = closest(output, FORMATS)
            hint = f"Did you mean {like[0]}?" if like else f"Known are {', '.join(FORMATS)}."
            raise UsageError(f"{output!r} is no output format.", hint=hint)
        columns = self._given.get("columns")
        return Display(
            format=output,
            columns=tuple(part.strip() for part in columns.split(",") if part.strip()) if columns else (),
            with_headers="no_headers" not in self._given,
            with_notes="quiet" not in self._given,
            with_color="no_color" not in self._given,
        )

    @property
    def timeout_ms(self) -> int:
        """The deadline of the whole command."""
        text = self._given.get("timeout") or (self._context.timeout if self._context else None)
        if text is None:
            return _DEFAULT_TIMEOUT_MS
        try:
            timeout_ms = parse_duration_ms(text)
        except ValueError as error:
            raise UsageError(f"--timeout: {error}.") from None
        if timeout_ms == 0:
            raise UsageError("--timeout: 0 leaves no time to ask anybody.")
        return timeout_ms

    def name_servers(self) -> tuple[str, ...]:
        """Return the name servers to ask. Raises UsageError when none are named anywhere."""
        from rmqctl.net.address import parse_name_servers

        text = (
            self._given.get("namesrv")
            or (self._context.namesrv if self._context else None)
            or os.environ.get("NAMESRV_ADDR")
        )
        if not text:
            raise UsageError(
                "No name server is given.",
                hint="Use -n HOST:9876, the variable NAMESRV_ADDR, or a context of the configuration file.",
            )
        return parse_name_servers(text)

    def ask(self, question: Callable[[Any], Awaitable[_T]]) -> _T:
        """Run one question against the cluster, with a client that lives as long."""
        name_servers, timeout_ms = self.name_servers(), self.timeout_ms
        import asyncio

        from rmqctl.client.core import Client

        async def run() -> _T:
            async with Client(name_servers, timeout_s=timeout_ms / 1000) as client:
                return await question(client)

        return asyncio.run(run())
