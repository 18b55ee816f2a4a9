"""Whether a group consumes a queue at all."""

from __future__ import annotations

from enum import IntEnum


class Standing(IntEnum):
    """Whether a group consumes a queue: LEFT when no member subscribes to its topic, GONE when no broker has the group.

    CONSUMES also when that is unknown.
    """

    CONSUMES = 0
    LEFT = 1
    GONE = 2


# The status and the cause of a queue that its group does not consume.
UNCONSUMED = {Standing.LEFT: ("LEFT", "NOT_SUBSCRIBED"), Standing.GONE: ("GONE", "NOT_CONFIGURED")}
