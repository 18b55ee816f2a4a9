"""Options that are numbers read them as all other texts do: typer would leave that to Python's int() and float()."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer._click.types import FloatParamType, FloatRange, IntParamType, IntRange

from rmqctl.text.numbers import decimal_number, whole_number


class _Plain:
    """Reads a number in the usual form only; the rest is typer's."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the number. Raises typer's error for a text in another form."""
        inner: Any = super()
        if isinstance(value, str):
            try:
                (whole_number if isinstance(self, IntParamType) else decimal_number)(value)
            except ValueError as error:
                inner.fail(f"{error}.", param, ctx)
        return inner.convert(value, param, ctx)


class _Int(_Plain, IntParamType):
    pass


class _IntRange(_Plain, IntRange):
    pass


class _Float(_Plain, FloatParamType):
    pass


class _FloatRange(_Plain, FloatRange):
    pass


def read_plain_numbers(params: Iterable[Any]) -> None:
    """Let the parameters of a command that are numbers accept these forms only."""
    for param in params:
        kind = param.type
        if isinstance(kind, IntRange):
            param.type = _IntRange(kind.min, kind.max)
        elif isinstance(kind, FloatRange):
            param.type = _FloatRange(kind.min, kind.max)
        elif isinstance(kind, IntParamType):
            param.type = _Int()
        elif isinstance(kind, FloatParamType):
            param.type = _Float()
