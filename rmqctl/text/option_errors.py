"""Invalid values of options, settings and fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rmqctl.errors import UsageError


@contextmanager
def option_errors(option: str, *, hint: str | None = None) -> Iterator[None]:
    """Turn a ValueError about a value into a UsageError that names the option."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{option}: {error}.", hint=hint) from None
