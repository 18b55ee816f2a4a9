"""A part of an answer that could not be read, or of a change that could not be written."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from rmqctl.errors import RmqctlError

# What failed of a broker whose slave answered for its master.
SLAVE_ANSWERED = "master, its slave answered"
_GROUP = "group "


class Attempt(StrEnum):
    """What was attempted. UNANSWERED_WRITE was sent, and may have taken effect; WRITE was refused, or never sent."""

    READ = "READ"
    WRITE = "WRITE"
    UNANSWERED_WRITE = "UNANSWERED_WRITE"


class Failure(Struct, frozen=True):
    """One thing that failed, for the list of errors of a partial result."""

    broker_name: str | None
    what: str
    error: RmqctlError
    attempt: Attempt = Attempt.READ

    @classmethod
    def of_group(cls, group: str, error: RmqctlError) -> Failure:
        """Return the failure to read a whole group."""
        return cls(None, f"{_GROUP}{group}", error)

    @property
    def is_of_group(self) -> bool:
        """Whether a whole group could not be read."""
        return self.what.startswith(_GROUP)
