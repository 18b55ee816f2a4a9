"""Where a reset leads each queue, and what that costs."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from rmqctl.model.queue import MessageQueue


class Aim(StrEnum):
    """How a target is found."""

    TIME = "TIME"
    EARLIEST = "EARLIEST"
    LATEST = "LATEST"
    OFFSET = "OFFSET"
    SHIFT = "SHIFT"
    CURRENT = "CURRENT"
    GIVEN = "GIVEN"  # by another group's offsets, or by a file's
    BEFORE = "BEFORE"  # where it was before a change, which can be nowhere


NONE_STORED = "RocketMQ can't take one offset away: -1 is stored, which brokers and clients take for none"


class Spec(Struct, frozen=True):
    """What was asked for: `value` is the time in ms, the offset, or the number of messages; `words` say it again."""

    aim: Aim
    value: int = 0
    words: str = ""


class QueueFacts(Struct, frozen=True):
    """What a target is chosen by. `current` is the stored offset, None for none.

    `found` is the first message stored at the time or later, where that was asked; `given` another group's or a file's
    offset, None for none.
    """

    mq: MessageQueue
    min_offset: int
    max_offset: int
    current: int | None
    found: int | None = None
    given: int | None = None


class Choice(Struct, frozen=True):
    """The offset to store, None where the queue is left as it is, or with `is_removed` has none any more.

    `note` says what is worth knowing of either.
    """

    target: int | None
    note: str = ""
    is_removed: bool = False

    @property
    def is_left(self) -> bool:
        """Whether the queue is left as it is."""
        return self.target is None and not self.is_removed


class Effects(Struct, frozen=True):
    """Messages that are consumed again, that never will be, and that were deleted unread; None: none was stored."""

    reconsumed: int | None
    skipped: int | None
    lost: int | None


def choose_target(spec: Spec, facts: QueueFacts) -> Choice:
    """Return where a queue goes: always to a message that is there, or to the end.

    Brokers would store any number; from one outside the queue, clients are sent to its nearer end.
    """
    match spec.aim:
        case Aim.EARLIEST:
            return Choice(facts.min_offset)
        case Aim.LATEST:
            return Choice(facts.max_offset)
        case Aim.TIME:
            wanted = facts.max_offset if facts.found is None else facts.found
        case Aim.OFFSET:
            wanted = spec.value
        case Aim.SHIFT if facts.current is not None:
            wanted = facts.current + spec.value
        case Aim.CURRENT if facts.current is not None:
            wanted = facts.current
        case Aim.GIVEN if facts.given is not None:
            wanted = facts.given
        case Aim.GIVEN:
            return Choice(None, "no offset is given")
        case Aim.BEFORE if facts.given is not None:
            wanted = facts.given
        case Aim.BEFORE if facts.current is None:
            return Choice(None, "there is no offset, as before")
        case Aim.BEFORE:
            return Choice(None, NONE_STORED, is_removed=True)
        case _:
            return Choice(None, "no offset is stored")
    if wanted < facts.min_offset:
        return Choice(facts.min_offset, f"{wanted} is deleted: {facts.min_offset} is the first that is left")
    if wanted > facts.max_offset:
        return Choice(facts.max_offset, f"{wanted} is not written yet: {facts.max_offset} is the end")
    return Choice(wanted)


def find_effects(before: int | None, target: int | None, min_offset: int, max_offset: int) -> Effects:
    """Return what a queue's change does to messages that are still there."""
    lost = None if before is None else max(0, min(min_offset, max_offset) - before)
    if before is None or target is None:
        return Effects(None, None, lost)
    had, gets = _within(before, min_offset, max_offset), _within(target, min_offset, max_offset)
    return Effects(reconsumed=max(0, had - gets), skipped=max(0, gets - had), lost=lost)


def _within(offset: int, min_offset: int, max_offset: int) -> int:
    return max(min_offset, min(offset, max_offset))
