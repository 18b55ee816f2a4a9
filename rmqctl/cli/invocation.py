"""One run of a command: its settings, and the client that it asks."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec import Struct

from rmqctl.errors import UsageError
from rmqctl.rules.durations import parse_duration_ms
from rmqctl.rules.names import closest

from .config import ContextConfig, read_context
from .globals import FORMATS, given_globals

_T = TypeVar("_T")
_DEFAULT_TIMEOUT_MS = 10_000


class Display(Struct, frozen=True):
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
        if needs_cluster:
            self._context = self._read_context()
        self.display = self._display()

    def _read_context(self) -> ContextConfig | None:
        """Read a context that is named; the current one only when neither -n nor the environment stand above it."""
        wanted = self._given.get("context")
        if wanted is None and ("namesrv" in self._given or os.environ.get("NAMESRV_ADDR")):
            return None
        return read_context(wanted)

    def _setting(self, name: str) -> str | None:
        """Return an option as given, else as the context has it. One given empty (an unset variable) stays empty."""
        given: str | None = self._given.get(name)
        return given if given is not None else getattr(self._context, name, None)

    def _display(self) -> Display:
        output = self._setting("output")
        output = "table" if output is None else output
        if output not in FORMATS:
            like = closest(output, FORMATS)
            hint = f"Did you mean {like[0]}?" if like else f"Known are {', '.join(FORMATS)}."
            raise UsageError(f"{output!r} is no output format.", hint=hint)
        columns = tuple(part.strip() for part in self._given.get("columns", "").split(",") if part.strip())
        if "columns" in self._given and not columns:
            raise UsageError("--columns names no column.")
        return Display(
            format=output,
            columns=columns,
            with_headers="no_headers" not in self._given,
            with_notes="quiet" not in self._given,
            with_color="no_color" not in self._given,
        )

    @property
    def timeout_ms(self) -> int:
        """The deadline of the whole command."""
        text = self._setting("timeout")
        if text is None:
            return _DEFAULT_TIMEOUT_MS
        where = "--timeout" if "timeout" in self._given or self._context is None else f"Context {self._context.name}"
        try:
            timeout_ms = parse_duration_ms(text)
        except ValueError as error:
            raise UsageError(f"{where}: {error}.") from None
        if timeout_ms == 0:
            raise UsageError(f"{where}: 0 leaves no time to ask anybody.")
        return timeout_ms

    def name_servers(self) -> tuple[str, ...]:
        """Return the name servers to ask. Raises UsageError when none are named anywhere."""
        from rmqctl.net.address import parse_name_servers

        text = self._setting("namesrv")
        if text is None:
            text = os.environ.get("NAMESRV_ADDR")
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
