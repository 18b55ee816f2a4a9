"""A part of an answer that could not be read."""

from __future__ import annotations

from msgspec import Struct

from rmqctl.errors import RmqctlError


class Failure(Struct, frozen=True):
    """One thing that could not be read, for the list of errors beside a partial result."""

    broker_name: str | None
    what: str
    error: RmqctlError
