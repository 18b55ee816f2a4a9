"""Hints of errors that go through Spark, which keeps an error's text only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rmqctl.errors import RmqctlError


@contextmanager
def with_hints() -> Iterator[None]:
    """Have an error's hint stand below its sentence in tracebacks; as a decorator, too."""
    try:
        yield
    except RmqctlError as error:
        if error.hint is not None and error.hint not in getattr(error, "__notes__", ()):
            error.add_note(error.hint)
        raise
