"""How a list marks a group: something is wrong, nothing is, or not everything was looked at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from rmqctl.model.group import GroupState
from rmqctl.model.progress import Unknown

# The reason for what a command leaves out by itself.
NOT_ASKED = "NOT_ASKED"


class Mark(StrEnum):
    """What a list shows of a group under "!"."""

    ATTENTION = "!"  # something is wrong
    UNCHECKED = "?"  # nothing was found, and not everything was looked at
    FINE = "-"  # everything was looked at, and nothing is wrong


class Part(StrEnum):
    """A part of a group that can be looked at by itself."""

    BROKERS = "BROKERS"
    MEMBERS = "MEMBERS"
    DEAD_LETTERS = "DEAD_LETTERS"


def mark(findings: Collection[object], unchecked: Collection[object]) -> Mark:
    """Return the mark of a group, by its findings of WARNING or worse and by what was not looked at."""
    if findings:
        return Mark.ATTENTION
    return Mark.UNCHECKED if unchecked else Mark.FINE


def unchecked_parts(
    state: GroupState, unseen: Unknown | None, untold: Unknown | None, *, are_letters_asked: bool
) -> Mapping[Part, str]:
    """Return what was not looked at of a group whose members were not asked, each with its reason.

    `unseen`: why the group may have members that no broker sees. `untold`: why a part of brokers' tables is missing.
    """
    found: dict[Part, str] = {}
    if untold is not None:
        found[Part.BROKERS] = str(untold)
    if state is GroupState.ONLINE:
        found[Part.MEMBERS] = NOT_ASKED
    elif state is GroupState.UNKNOWN:
        found[Part.MEMBERS] = str(unseen or Unknown.NOT_REPORTED)
    if not are_letters_asked:
        found[Part.DEAD_LETTERS] = NOT_ASKED
    return found
