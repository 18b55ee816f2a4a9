"""The result of a check."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from rmqctl.errors import RmqctlError


class Status(StrEnum):
    """How a check ended; UNKNOWN means that it could not be made."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "UNKNOWN"


class CheckResult(Struct, frozen=True):
    """One check: its subject, what was found, and what to do. `measured` are its numbers, by their JSON names.

    `error` is what made it fail, for the exit code.
    """

    check: str
    subject: str
    status: Status
    found: str
    hint: str | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    error: RmqctlError | None = None
