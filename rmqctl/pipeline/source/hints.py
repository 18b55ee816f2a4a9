"""Keeps the hints of errors that pass through Spark, which keeps only an error's text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rmqctl.errors import RmqctlError


@contextmanager
def with_hints() -> Iterator[None]:
    """Add an error's hint below its sentence in tracebacks; also works as a decorator."""
    try:
        yield
    except RmqctlError as error:
        if error.hint is not None and error.hint not in getattr(error, "__notes__", ()):
            error.add_note(error.hint)
        raise
