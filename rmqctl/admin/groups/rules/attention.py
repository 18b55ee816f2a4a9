"""How a list marks a group: a problem was found, no problem was found, or not everything was checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown

# The reason for a part that a command does not check by default.
NOT_ASKED = "NOT_ASKED"


class Mark(StrEnum):
    """The value of a group in the column "!"."""

    ATTENTION = "!"  # a problem was found
    UNCHECKED = "?"  # no problem was found, but not everything was checked
    FINE = "-"  # everything was checked, and no problem was found


class Part(StrEnum):
    """A part of a group that is checked separately."""

    BROKERS = "BROKERS"
    MEMBERS = "MEMBERS"
    DEAD_LETTERS = "DEAD_LETTERS"


def mark(findings: Collection[object], unchecked: Collection[object]) -> Mark:
    """Return the mark of a group from its findings of WARNING or worse and the parts that were not checked."""
    if findings:
        return Mark.ATTENTION
    return Mark.UNCHECKED if unchecked else Mark.FINE


def unchecked_parts(
    state: GroupState, unseen: Unknown | None, unread: Unknown | None, *, are_letters_asked: bool
) -> Mapping[Part, str]:
    """Return the unchecked parts of a group whose members were not asked, each with its reason.

    `unseen`: why the group may have members that no broker sees. `unread`: why some brokers' tables are missing.
    """
    found: dict[Part, str] = {}
    if unread is not None:
        found[Part.BROKERS] = str(unread)
    if state is GroupState.ONLINE:
        found[Part.MEMBERS] = NOT_ASKED
    elif state is GroupState.UNKNOWN:
        found[Part.MEMBERS] = str(unseen or Unknown.NOT_REPORTED)
    if not are_letters_asked:
        found[Part.DEAD_LETTERS] = NOT_ASKED
    return found
